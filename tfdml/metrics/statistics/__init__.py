"""Statistics of metrics: confidence intervals, comparisons, values per class."""
