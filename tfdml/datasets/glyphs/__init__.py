"""Glyphs: characters of many typefaces, drawn when they are first used."""
