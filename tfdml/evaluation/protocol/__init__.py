"""Model selection: folds, trials, cross-validation, and the final test."""
