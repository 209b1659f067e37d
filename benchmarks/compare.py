"""`tfdml.evaluation.compare` beside one matrix product, and `compare_runs` beside what computes the same measures.

`embeddings`: one model and ten models, leave-one-out, with their intervals and tests, and the product of all rows with
all rows in float32. The models are files that are read by memory map, and differ by noise of the same size. `runs`:
MAP, MRR and nDCG@10 of rankings, with the same values in ranx, pytrec_eval and torchmetrics; their times are without
intervals and tests. Each way runs in a process of its own, in turns, so that its peak memory can be measured. Times
leave out imports and the making of the data.

    python benchmarks/compare.py            # half an hour of two cores
    python benchmarks/compare.py --quick    # small sizes; --no-peers leaves the other libraries out
"""

import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from _report import of_process, options_of, peak_mib, require_peers, timed, write_table
from retrieval import make_data, product

import tfdml

SIZES = {
    "embeddings": {"rows": 60_000, "dim": 512, "classes": 11_316},
    "runs": {"queries": 5_000, "documents": 100},
}
QUICK = {
    "embeddings": {"rows": 2_000, "dim": 32, "classes": 380},
    "runs": {"queries": 50, "documents": 20},
}
PEERS = ("ranx", "pytrec_eval", "torchmetrics")


class Files(dict):
    """Vectors of files by name, read by memory map at each access."""

    def path(self, name):
        """The file of one model."""
        return super().__getitem__(name)

    def __getitem__(self, name):
        """The vectors of one model."""
        return np.load(self.path(name), mmap_mode="r")


def embeddings(models, rows, dim, classes):
    """A function that compares so many models; without models, one that multiplies."""
    x, labels = make_data(rows, dim, classes)
    if not models:
        return partial(product, x, labels)
    folder = tempfile.TemporaryDirectory()
    paths, rng = Files(), np.random.default_rng(1)
    for model in map(str, range(models)):
        paths[model] = Path(folder.name) / f"{model}.npy"
        np.save(paths.path(model), x + np.float32(0.02) * rng.standard_normal(x.shape, dtype="float32"))
    return partial(_compared, paths, labels, folder)


def _compared(paths, labels, folder):

    with folder:
        found = tfdml.evaluation.compare(paths, labels)
    assert len(found.pairs) == len(paths) * (len(paths) - 1) // 2
    return {}


def runs(way, queries, documents):
    """A function that returns the measures of a run in which each query has a few relevant documents."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((queries, documents), dtype="float32")
    relevant = rng.random((queries, documents)) < 0.1
    relevant[:, 0] = True
    scores += relevant + 10  # torchmetrics ignores documents whose score is not above 0
    qrels = {f"q{i}": {f"d{j}": 1 for j in np.flatnonzero(row)} for i, row in enumerate(relevant)}
    run = {f"q{i}": {f"d{j}": float(score) for j, score in enumerate(row)} for i, row in enumerate(scores)}
    return {"tfdml": _tfdml, "pytrec_eval": _pytrec_eval, "ranx": _ranx}.get(way, _torchmetrics)(
        run, qrels, scores, relevant
    )


def _tfdml(run, qrels, scores, relevant):

    def call():
        found = tfdml.evaluation.compare_runs({"run": run}, qrels, metrics=("map", "mrr", "ndcg@10"))
        return {name: mean.value for name, mean in found.means["run"].items()}

    return call


def _pytrec_eval(run, qrels, scores, relevant):
    import pytrec_eval

    names = {"map": "map", "recip_rank": "mrr", "ndcg_cut_10": "ndcg@10"}

    def call():
        found = pytrec_eval.RelevanceEvaluator(qrels, {"map", "recip_rank", "ndcg_cut.10"}).evaluate(run)
        return {ours: np.mean([values[theirs] for values in found.values()]) for theirs, ours in names.items()}

    return call


def _ranx(run, qrels, scores, relevant):
    import ranx

    def call():
        found = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), ["map", "mrr", "ndcg@10"])
        return {name: float(value) for name, value in found.items()}

    return call


def _torchmetrics(run, qrels, scores, relevant):
    import torch
    from torchmetrics import retrieval

    indexes = torch.arange(len(scores)).repeat_interleave(scores.shape[1])
    flat = torch.from_numpy(scores).reshape(-1), torch.from_numpy(relevant).reshape(-1)

    def call():
        measures = {
            "map": retrieval.RetrievalMAP(),
            "mrr": retrieval.RetrievalMRR(),
            "ndcg@10": retrieval.RetrievalNormalizedDCG(top_k=10),
        }
        for measure in measures.values():
            measure.update(*flat, indexes=indexes)
        return {name: float(measure.compute()) for name, measure in measures.items()}

    return call


WAYS = {"embeddings": {"matrix product alone": 0, "one model": 1, "ten models": 10}}
WAYS["runs"] = {way: way for way in ("tfdml", *PEERS)}


def measure(work, way, size):
    """Measures, seconds and memory of one way."""
    make = {"embeddings": embeddings, "runs": runs}[work]
    make(WAYS[work][way], **QUICK[work])()  # imports, thread pools, compilation
    found, seconds, _ = timed(make(WAYS[work][way], **size))
    return {"seconds": seconds, "peak_mib": peak_mib(), **{name: float(value) for name, value in found.items()}}


def rows_of(work, size, ways, repeats):
    """A row per way: medians of times and memory over alternating processes, and its measures."""
    found = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            found[way].append(of_process(__file__, work, way, size))
    first = statistics.median(one["seconds"] for one in found[ways[0]])
    for way, all_of in found.items():
        middle = {name: statistics.median(one[name] for one in all_of) for name in ("seconds", "peak_mib")}
        values = {name: all_of[0].get(name, "") for name in ("map", "mrr", "ndcg@10")}
        for name, value in values.items():
            if value != "" and abs(value - found[ways[0]][0][name]) > 1e-6:
                raise SystemExit(f"{name}: {ways[0]} {found[ways[0]][0][name]}, {way} {value}; they should agree.")
        yield {"work": work, "way": way, **size, **middle, "over_first": middle["seconds"] / first, **values}


def main():
    """Measure every way and write the table."""
    options = options_of(__doc__, "compare.csv", case=measure, peers=True, repeats=3, quick={"repeats": 1})
    if options.peers:
        require_peers(*PEERS)
    rows = []
    for work, size in (QUICK if options.quick else SIZES).items():
        ways = [way for way in WAYS[work] if options.peers or way not in PEERS]
        rows += rows_of(work, size, ways, options.repeats)
    write_table(options.output, rows, *(("ranx", "pytrec-eval-terrier", "torchmetrics") if options.peers else ()))


if __name__ == "__main__":
    main()
