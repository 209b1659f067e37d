"""Reports about a model and a set: metrics, curves, error analysis, and a page."""
