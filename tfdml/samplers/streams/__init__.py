"""Streams of batches: row numbers, examples, and the forms that other libraries take."""
