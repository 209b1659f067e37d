"""Comparison of several models on the same queries: embeddings, rankings, or scores of any tool."""
