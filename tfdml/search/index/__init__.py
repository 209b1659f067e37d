"""The parts of an index: items, ids, segments, metadata, files."""
