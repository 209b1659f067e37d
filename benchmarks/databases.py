"""One Parquet file of embeddings in other databases: their distances beside ours, their ids, and their recall.

`tfdml.models.write_embeddings` writes 4,000 x 64 vectors. LanceDB, Qdrant in its local mode, and pgvector in PGlite,
which is PostgreSQL in one process, take them from the file. Each returns the ten nearest of 200 queries. `form` is
their distance as `docs/your-database.md` states it, and `largest_error` the largest difference from it. The recall is
against `tfdml.search.Exact`.

    pip install qdrant-client==1.20.0
    npm install --prefix .npm @electric-sql/pglite @electric-sql/pglite-pgvector
    python benchmarks/databases.py                # a minute
    python benchmarks/databases.py --quick --databases lancedb
"""

import json
import subprocess
import tempfile
from pathlib import Path

import keras
import numpy as np
from _report import options_of, write_table
from search import make_vectors

import tfdml

METRICS = ("cosine", "dot", "euclidean")
K = 10
ROOT = Path(__file__).parents[1]
# Their distance from our score.
FORMS = {
    "ours": lambda score: score,
    "1 - ours": lambda score: 1 - score,
    "minus ours": lambda score: -score,
    "the square of ours": np.square,
}


def written(rows, dim, path):
    """A Parquet file of embeddings that are not of unit length, and queries."""
    inputs = keras.Input((dim,))
    model = tfdml.models.EmbeddingModel(inputs, keras.layers.Identity()(inputs))
    tfdml.models.write_embeddings(model, 3 * make_vectors(rows, dim, 1), path)
    return 2 * make_vectors(200, dim, 2)


def lancedb(path, queries, folder):
    """Facts, ids and distances of Lance's own search, for each metric."""
    import lance
    import pyarrow.parquet as pq

    data = lance.write_dataset(pq.read_table(path), folder / "items.lance")
    forms = {"cosine": "1 - ours", "dot": "1 - ours", "l2": "the square of ours"}
    for metric, (theirs, form) in zip(METRICS, forms.items(), strict=True):
        nearest = {"column": "embedding", "k": K, "metric": theirs}
        found = [data.to_table(nearest={**nearest, "q": q}, columns=["row", "_distance"]) for q in queries]
        facts = {"metric": metric, "vectors": "vector", "search": "exact", "form": form}
        ids, distances = (np.stack([each[name].to_numpy() for each in found]) for name in ("row", "_distance"))
        yield facts | {"software": tfdml.environment("pylance")["versions"]}, ids, distances


def qdrant(path, queries, folder):
    """The same of Qdrant's local mode, which compares all vectors."""
    from qdrant_client import QdrantClient
    from qdrant_client.models import Distance, PointStruct, VectorParams

    stored, client = tfdml.models.read_embeddings(path), QdrantClient(":memory:")
    x = stored.embeddings
    for metric, distance in zip(METRICS, (Distance.COSINE, Distance.DOT, Distance.EUCLID), strict=True):
        client.create_collection(metric, vectors_config=VectorParams(size=x.shape[1], distance=distance))
        points = [PointStruct(id=int(row), vector=vector.tolist()) for row, vector in zip(stored.rows, x, strict=True)]
        client.upsert(metric, points)
        found = [client.query_points(metric, query=query.tolist(), limit=K).points for query in queries]
        ids, scores = (np.array([[getattr(p, name) for p in each] for each in found]) for name in ("id", "score"))
        facts = {"metric": metric, "vectors": "vector", "search": "exact", "form": "ours"}
        yield facts | {"software": tfdml.environment("qdrant-client")["versions"]}, ids, scores


def pgvector(path, queries, folder):
    """The same of pgvector: without an index, by half floats, and by a graph that keeps 10 or 100 candidates."""
    stored = tfdml.models.read_embeddings(path)
    given = {"ids": stored.rows.tolist(), "vectors": stored.embeddings.tolist(), "queries": queries.tolist(), "k": K}
    (folder / "given.json").write_text(json.dumps(given))
    script = Path(__file__).with_name("pgvector.mjs")
    subprocess.run(["node", script, folder / "given.json", folder / "found.json", ROOT / ".npm"], check=True)
    forms = dict(zip(METRICS, ("1 - ours", "minus ours", "ours"), strict=True))
    for facts in json.loads((folder / "found.json").read_text()):
        ids, distances = (np.array(facts.pop(name)) for name in ("ids", "distances"))
        yield facts | {"form": forms[facts["metric"]]}, ids, distances


DATABASES = {"lancedb": lancedb, "qdrant": qdrant, "pgvector": pgvector}


def rows_of(options, folder):
    """A row for each database, metric and way to search."""
    rows, dim = (200, 8) if options.quick else (4_000, 64)
    path = folder / "items.parquet"
    queries = written(rows, dim, path)
    stored = tfdml.models.read_embeddings(path)
    for database in options.databases:
        place = folder / database
        place.mkdir()
        for facts, ids, distances in DATABASES[database](path, queries, place):
            metric = facts["metric"]
            expected = FORMS[facts["form"]](exact_scores(stored, queries, ids, metric))
            exact, _ = tfdml.search.Exact(stored.embeddings, stored.rows, metric=metric).search(queries, K)
            measured = {
                "largest_error": float(np.abs(distances - expected).max()),
                "recall@10": tfdml.search.neighbor_recall(ids, exact),
            }
            yield {"database": database, **facts, **measured, "rows": rows, "dim": dim}


def exact_scores(stored, queries, ids, metric):
    """Our score of each query and the items that a database returned, in float64."""
    x, q = (np.asarray(values, np.float64) for values in (stored.embeddings[ids], queries[:, None]))
    if metric == "euclidean":
        return np.linalg.norm(x - q, axis=-1)
    product = (x * q).sum(axis=-1)
    return product if metric == "dot" else product / np.linalg.norm(x, axis=-1) / np.linalg.norm(q, axis=-1)


def main():
    """Measure and write the table."""
    databases = {"nargs": "+", "choices": DATABASES, "default": list(DATABASES)}
    options = options_of(__doc__, "databases.csv", databases=databases)
    with tempfile.TemporaryDirectory() as folder:
        write_table(options.output, rows_of(options, Path(folder)))


if __name__ == "__main__":
    main()
