"""Makes tests/peers.json: public names of other libraries, and what miners and metrics of one of them give.

    pip install -r requirements/peers.lock    # torch, pytorch-metric-learning
    pip download --no-deps --dest WHEELS pytorch-metric-learning==2.9.0 tensorflow-similarity sentence-transformers
    python -m tools.make_peers WHEELS

Names are read from the wheels, so that the other two need no installation: of a folder those that its `__init__`
imports, of a file its classes, or its functions where it has none. `tests/test_migration.py` reads the file: each name
stands in the page docs/from-LIBRARY.md, and each selection and metric that the page calls the same is the same.
"""

import ast
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from pytorch_metric_learning import distances, miners
from pytorch_metric_learning.utils import accuracy_calculator, inference, loss_and_miner_utils

from tools import make_peer_reference

FILE = Path(__file__).parent.parent / "tests" / "peers.json"
ROOMS = {
    "pytorch_metric_learning": [
        *("losses", "miners", "distances", "reducers", "regularizers", "samplers", "trainers", "testers", "datasets"),
        *("utils/accuracy_calculator", "utils/inference", "utils/distributed", "utils/logging_presets"),
    ],
    "tensorflow_similarity": [
        *("losses", "distances", "samplers", "models", "layers", "architectures", "augmenters", "schedules", "indexer"),
        *("search", "stores", "matchers", "evaluators", "callbacks", "visualization"),
        *("retrieval_metrics", "classification_metrics", "training_metrics"),
    ],
    "sentence_transformers": [
        *("sentence_transformer/losses", "sentence_transformer/evaluation", "sentence_transformer/modules/clip_model"),
        *("util/retrieval", "util/hard_negatives", "util/quantization", "util/similarity", "base/sampler"),
    ],
}
LABELS = [2, 0, 1, 0, 2, 2, 1, 2, 0, 1, 3]
MINERS = {
    "AngularMiner": miners.AngularMiner(angle=25),
    "BatchEasyHardMiner, easy positives": miners.BatchEasyHardMiner("easy", "all"),
    "BatchEasyHardMiner, hard positives": miners.BatchEasyHardMiner("hard", "all"),
    "MultiSimilarityMiner": miners.MultiSimilarityMiner(epsilon=0.1),
    "PairMarginMiner": miners.PairMarginMiner(pos_margin=0.6, neg_margin=1.2),
    "TripletMarginMiner": miners.TripletMarginMiner(margin=0.1),
    "TripletMarginMiner, hard": miners.TripletMarginMiner(margin=0.1, type_of_triplets="hard"),
    "TripletMarginMiner, semihard": miners.TripletMarginMiner(margin=0.1, type_of_triplets="semihard"),
}


def is_public(name):
    """Whether a name has no leading underscore."""
    return not name.startswith("_")


def imported_names(module, package):
    """Names that a module imports from its own package."""
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    from_package = [node for node in imports if node.level or (node.module or "").startswith(package)]
    return [alias.asname or alias.name for node in from_package for alias in node.names]


def defined_names(module):
    """Classes that a module defines, or its functions where it has none."""
    classes, functions = (
        [node.name for node in module.body if isinstance(node, kind)] for kind in (ast.ClassDef, ast.FunctionDef)
    )
    return classes or functions


def names_of(wheel, package, room):
    """Public names of a folder or a file of a wheel, sorted."""
    folder = f"{package}/{room}/__init__.py"
    is_folder = folder in wheel.namelist()
    module = ast.parse(wheel.read(folder if is_folder else f"{package}/{room}.py"))
    return sorted(filter(is_public, imported_names(module, package) if is_folder else defined_names(module)))


def library(path, package):
    """The version and the public names of a wheel, by room."""
    with zipfile.ZipFile(path) as wheel:
        return {"version": path.name.split("-")[1]} | {
            "names": {room: names_of(wheel, package, room) for room in ROOMS[package]}
        }


def embeddings():
    """Embeddings of `LABELS`, those of a class near each other, `(rows, 5)`."""
    generator = np.random.default_rng(0)
    centers = generator.standard_normal((4, 5))
    return (0.8 * centers[LABELS] + generator.standard_normal((len(LABELS), 5))).round(3)


def selected_pairs(miner):
    """Rows (anchor, other) of the positives and of the negatives that a miner of the peer selects, sorted."""
    labels = torch.tensor(LABELS)
    a, p, b, n = loss_and_miner_utils.convert_to_pairs(miner(torch.tensor(embeddings()), labels), labels)
    return [sorted({*zip(x.tolist(), y.tolist(), strict=True)}) for x, y in ((a, p), (b, n))]


def accuracies():
    """The metrics of the peer, by name, of leave-one-out by cosine similarity."""
    names = ["mean_average_precision", "mean_average_precision_at_r", "precision_at_1", "r_precision"]
    search = inference.CustomKNN(distances.CosineSimilarity())
    calculator = accuracy_calculator.AccuracyCalculator(
        include=[*names, "mean_reciprocal_rank"], knn_func=search, device=torch.device("cpu")
    )
    return calculator.get_accuracy(torch.tensor(embeddings()), torch.tensor(LABELS))


def facts(folder):
    """Everything in the file."""
    wheels = {package: next(Path(folder).glob(f"{package}-*.whl")) for package in ROOMS}
    calculator = accuracy_calculator.AccuracyCalculator
    compared = {
        name: type(loss).__name__
        for name, loss in [
            *((name, loss) for name, (_, loss) in make_peer_reference.PAIRS.items()),
            *make_peer_reference.PROXIES.items(),
        ]
    }
    return {
        "libraries": {package: library(path, package) for package, path in wheels.items()},
        "metrics": sorted(name.removeprefix("calculate_") for name in vars(calculator) if "calculate_" in name),
        "compared losses": compared,
        "labels": LABELS,
        "embeddings": embeddings().tolist(),
        "selections": {name: selected_pairs(miner) for name, miner in MINERS.items()},
        "accuracies": accuracies(),
    }


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in facts(sys.argv[1]).items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
