"""The networks of papers, layer by layer."""
