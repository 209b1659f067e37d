"""Checks of a model before a step, so that no compiled step receives what it cannot train on."""
