"""Reproductions of papers: `python -m studies mining`, `python -m studies importance_sampling`."""
