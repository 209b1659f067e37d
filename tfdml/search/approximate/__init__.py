"""Approximate nearest neighbors with ScaNN, faiss and LanceDB, behind the interface of `Exact`."""
