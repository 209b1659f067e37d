"""Near-duplicates: groups, similar pairs by exact or approximate search, and bounds on their recall."""
