"""What the papers claim, table by table: verdicts and effects from the committed rows. The page is docs/claims.md.

An effect is a difference of two methods in points, paired by seed, with its 95% interval over seeds. A claim holds if
the interval of each of its effects is above 0, is seen in part if that of some is, and is not seen if that of none is.
A claim that methods are equal holds if each interval lies within two points of 0.
"""
