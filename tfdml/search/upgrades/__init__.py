"""A new model for an index: adapters between models, embedding again, and migration while the index answers."""
