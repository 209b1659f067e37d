"""What the papers claim, table by table: verdicts and effects from the committed rows. The page is docs/claims.md.

An effect is a difference of two methods in points, paired by seed, with its 95% interval over seeds. A claim holds if
the intervals of all its effects are above 0. It is seen in part if some are, and not seen if none is. A claim that
methods are equal holds if each interval lies within two points of 0.
"""
