"""The networks of the papers: pairs of patches, and pixels for stereo."""
