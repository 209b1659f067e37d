"""Losses that change or add up other losses."""
