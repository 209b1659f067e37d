"""Files of examples that were loaded or drawn before."""
