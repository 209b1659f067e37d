"""Public data sets, from their original files."""
