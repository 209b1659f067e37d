"""Files of examples from an earlier load or draw."""
