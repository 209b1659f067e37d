"""Approximate nearest neighbors with ScaNN and faiss, behind the interface of `Exact`."""
