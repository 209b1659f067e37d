"""Readers of PhotoTourism and HPatches, and simulated stereo strips."""
