"""An index of short codes in memory, whose candidates are scored from float32 on disk: space, Recall@1 and speed.

python benchmarks/stored_small.py            # glyphs by a model of the zoo, five minutes on two cores
python benchmarks/stored_small.py --quick    # the first classes

Images of the test characters of glyphs are embedded by `glyphs-nt-xent` (128 dimensions): the gallery is every second
drawing in eight distortions, the queries are the other drawings. Each index of faiss is saved and loaded, so that its
float32 vectors are mapped from disk; `bytes` are those of its codes, `lost` is the Recall@1 of exact search minus that
of the index, in points, with its 95% interval over classes. Queries are searched in turns, in batches on all cores.
Product quantizers of faiss without cells, by their names there, show how small codes may be: alone, and with 100
candidates that are scored from float32.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _report import median_seconds, options_of, write_table

import tfdml

CASES = [
    ("float32", "exact", None),
    ("int8", "exact", None),
    ("product", "exact", 100),
    ("binary", "exact", 100),
    ("float32", "partitioned", None),
    ("int8", "partitioned", None),
    ("product", "partitioned", 100),
    ("binary", "partitioned", 100),
]
QUANTIZERS = ["PQ32", "PQ16", "PQ8", "PQ4"]


def embedded(classes):
    """Embeddings and labels of gallery and queries: every second drawing in all distortions, the others in one."""
    views = 8
    (data,) = tfdml.datasets.glyphs(views=views)[1:]
    if classes is not None:
        data = data.select_classes(range(classes))
    drawing = np.arange(len(data)) % (len(data) // views)
    in_gallery = drawing % 2 == 0
    is_query = ~in_gallery & (np.arange(len(data)) < len(data) // views)
    embeddings = tfdml.models.embed(tfdml.zoo.load("glyphs-nt-xent"), data)
    return [(embeddings[rows], data.labels[rows]) for rows in (in_gallery, is_query)]


def main():
    """Measure and write the table."""
    options = options_of(__doc__, "stored_small.csv")
    write_table(options.output, rows_of(options.quick), "faiss-cpu")


def rows_of(quick):
    """A row for each index."""
    (vectors, gallery_labels), (queries, labels) = embedded(60 if quick else None)
    indexes = {case: stored(vectors, *case) for case in CASES}
    for quantizer in QUANTIZERS:
        index, size = quantized(vectors, quantizer)
        indexes |= {(quantizer, "exact", number): (Candidates(index, vectors, number), size) for number in (1, 100)}
    seconds = median_seconds(
        {case: lambda index=index: index.search(queries, 10) for case, (index, _) in indexes.items()},
        repeats=1 if quick else 5,
    )
    exact = is_correct(tfdml.search.Exact(vectors), queries, labels, gallery_labels)
    for (codes, method, rescore), (index, size) in indexes.items():
        correct = is_correct(index, queries, labels, gallery_labels)
        lost, low, high = (
            100 * x for x in ((exact - correct).mean(), *tfdml.metrics.class_interval(exact - correct, labels))
        )
        spent = seconds[codes, method, rescore]
        yield {
            "codes": codes,
            "method": method,
            "rescore": {None: "default", 1: "none"}.get(rescore, rescore),
            "bytes": size,
            "of_float32": size / (4 * vectors.shape[1]),
            "recall@1": 100 * correct.mean(),
            "lost": f"{lost:.2f} ({low:.2f} to {high:.2f})",
            "queries_per_second": len(queries) / spent,
            "over_float32": seconds["float32", method, None] / spent,
            "vectors": len(vectors),
            "dim": vectors.shape[1],
        }


def stored(vectors, codes, method, rescore):
    """An index that was saved and loaded, and the bytes of its codes for each vector."""
    folder = Path(tempfile.mkdtemp()) / "index"
    tfdml.search.Faiss(vectors, codes=codes, method=method, rescore=rescore).save(folder)
    size = next(folder.glob("faiss-*/index.faiss")).stat().st_size
    return tfdml.search.load(folder), size / len(vectors)


def quantized(vectors, quantizer):
    """An index of faiss of product codes alone, and its bytes for each vector, with a share of its codebook."""
    import faiss

    index = faiss.index_factory(vectors.shape[1], quantizer, faiss.METRIC_INNER_PRODUCT)
    index.do_polysemous_training = False  # takes minutes
    index.train(vectors)
    index.add(vectors)
    return index, len(faiss.serialize_index(index)) / len(vectors)


class Candidates(NamedTuple):
    """The search of an index of faiss, some candidates of which are scored again from the vectors."""

    index: Any
    vectors: np.ndarray
    rescored: int

    def search(self, queries, k):
        """Rows of the neighbors and their scores, as `tfdml.search` returns them."""
        scores, rows = self.index.search(queries, max(k, self.rescored))
        if self.rescored > 1:
            scores = np.einsum("qd,qnd->qn", queries, self.vectors[rows])
            order = np.argsort(-scores, axis=1, kind="stable")
            rows, scores = np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
        return rows[:, :k], scores[:, :k]


def is_correct(index, queries, labels, gallery_labels):
    """Whether the first neighbor of each query is of its class, `(queries,)` float64."""
    return (gallery_labels[index.search(queries, 1)[0][:, 0]] == labels).astype(float)


if __name__ == "__main__":
    main()
