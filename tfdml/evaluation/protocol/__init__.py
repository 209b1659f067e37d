"""Model selection: folds, trials, cross-validation, and the test that is opened once."""
