"""Samplers that draw from several samplers, or from two sets."""
