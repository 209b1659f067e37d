"""Clips with a box per frame: the record, and the embedded clips of moving pieces of photographs."""
