"""What is public has a user: names and options that nothing takes are listed here, and the lists may only shrink."""

import ast
import dataclasses
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from docs.extension.names import entries

ROOT = Path(__file__).parents[1]
CODE = ("recipes", "studies", "benchmarks", "tools")
OF_EVERY_LOSS = {"pairing", "miner", "importance", "match", "anchors_per_block", "name", "reduction", "dtype"}
# The most lines of each room, and of what stands around the package. A change that needs more raises its number, and
# its commit says why.
BUDGETS = {
    "tfdml/__init__.py": 100,
    "tfdml/__main__.py": 70,
    "tfdml/_core": 2_250,
    "tfdml/addons.py": 400,
    "tfdml/analysis": 720,
    "tfdml/callbacks": 970,
    "tfdml/cleaning": 1670,
    "tfdml/cli": 2550,
    "tfdml/datasets": 6880,
    "tfdml/distributed": 1_040,
    "tfdml/embedding": 1_420,
    "tfdml/evaluation": 3_070,
    "tfdml/export": 2480,
    "tfdml/importance": 410,
    "tfdml/layers": 1_240,
    "tfdml/losses": 7240,
    "tfdml/metrics": 3_930,
    "tfdml/miners": 1130,
    "tfdml/models": 2680,
    "tfdml/networks": 1_440,
    "tfdml/pairs": 2020,
    "tfdml/samplers": 2_240,
    "tfdml/search": 5730,
    "tfdml/serving": 2210,
    "tfdml/training": 1930,
    "tfdml/typing.py": 110,
    "tfdml/visualize": 930,
    "tfdml/zoo": 1_230,
    "tests": 52_260,
    "docs": 11_500,
    "studies": 11_050,
    "benchmarks": 6_160,
    "recipes": 8610,
    "tools": 2170,
}


# Names without a user, by the reason for which they stay.
NAMES = {
    "a loss or a miner of a paper that no study compares": """
        losses.CosineDistillationLoss losses.CosineRegressionLoss losses.MagnetLoss losses.RelationalAngleLoss
        losses.RelationalDistanceLoss losses.SimilarityPreservingLoss losses.WeightedContrastiveLoss
        losses.HingeSquared losses.uncertainty.Maximal miners.HardestNegativesOfBatch
        miners.SemiHardNegatives addons.NpairsLoss addons.NpairsMultilabelLoss
    """,
    "a feature that its own page shows": """
        analysis.label_noise analysis.plot_pair_histogram callbacks.PairDiagnostics
        datasets.huggingface datasets.judged_pairs datasets.public.lfw_pairs evaluation.class_folds
        export.ScannSearch export.next_version export.write_serving_config layers.ScheduledOption
        metrics.nearest_class_mean networks.unfreeze samplers.grain_batches
        samplers.torch_batches search.hardest_triplets search.upgrade
    """,
}
# Options that nothing passes, by the reason for which they stay.
OPTIONS = {
    "a setting that the paper or the protocol gives": {
        "datasets.RandomResizedCrop": "aspect",
        "datasets.public.lfw": "pairs",
        "datasets.public.omniglot": "split rotations",
        "datasets.public.vehicle_id": "test",
        "layers.ClassTree": "levels",
        "layers.Mahalanobis": "rank normalize_trace",
        "layers.PositionDependentMetric": "units",
        "losses.CentroidTripletLoss": "hard",
        "losses.IntraPairVarianceLoss": "positive_epsilon negative_epsilon",
        "losses.LiftedStructureLoss": "hard",
        "losses.ManifoldLoss": "context_weight",
        "losses.PDDMLoss": "distance_margin",
        "losses.RankedListLoss": "positive_scale balance",
        "losses.SoftTripleLoss": "nu",
        "losses.ThresholdConsistencyLoss": "positive_threshold negative_threshold positive_weight negative_weight",
        "losses.TupletMarginLoss": "margin_degrees",
        "losses.WeightedContrastiveLoss": "positive_cost negative_cost eta distance",
        "losses.uncertainty.GroupedKL": "negative_gamma pseudo_loss",
        "metrics.random_gallery": "repeats",
        "metrics.reidentification": "junk",
        "miners.BalancedPairs": "draws",
        "miners.DistanceWeighted": "max_distance clip",
        "miners.DistanceWeightedNegatives": "max_distance clip",
        "miners.HardestNegativesOfBatch": "fraction",
        "miners.PairMargin": "positive_margin negative_margin",
        "miners.RandomNegatives": "draws",
        "miners.SemiHardNegatives": "margin max_distance",
        "miners.UniformHistogram": "bins positives_per_bin negatives_per_bin",
        "models.efficientnet_lite": "drop_connect_rate",
        "networks.add_lora": "alpha",
    },
    "a form that another library has: Keras, TensorFlow Addons, PyTorch, grain": {
        "addons.ContrastiveLoss": "reduction",
        "addons.LiftedStructLoss": "name",
        "addons.NpairsLoss": "name",
        "addons.NpairsMultilabelLoss": "name",
        "addons.TripletHardLoss": "soft distance_metric name",
        "addons.TripletSemiHardLoss": "name",
        "layers.Mahalanobis": "initializer",
        "layers.Proxies": "initializer",
        "samplers.grain_batches": "augment labels load prefetch workers",
        "samplers.torch_batches": "start",
    },
    "an option that all of its family have": {
        "analysis.pair_histogram": "match",
        "callbacks.RefreshCenters": "every",
        "callbacks.RefreshMinedPairs": "index",
        "datasets.huggingface": "image label load",
        "datasets.public.lfw": "load",
        "datasets.public.mini_imagenet": "load",
        "distributed.search_shards": "model",
        "metrics.quantized_retrieval": "gallery",
        "metrics.reidentification": "max_bytes",
        "pairs.Pairs": "counts",
        "pairs.two_towers": "match",
        "pairs.two_views": "match",
        "samplers.TwoSetSampler": "short_classes",
        "samplers.input_pairs": "start",
        "search.Faiss": "max_bytes",
        "search.Lance": "max_bytes",
        "search.Scann": "max_bytes",
        "search.hardest_triplets": "metric index",
        "search.search_on_disk": "max_bytes model",
    },
}


class Uses:
    """The identifiers of a piece of code, and the keywords and texts that may name an option."""

    def __init__(self, text):
        nodes = list(ast.walk(ast.parse(text)))
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.names = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        self.names |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
        self.options = {keyword.arg for call in self.calls for keyword in call.keywords}
        self.options |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}

    def positional(self, name):
        """The largest number of positional arguments with which a name is called."""
        found = [len(call.args) for call in self.calls if _last(call.func) == name]
        return max(found, default=0)


def _last(node):
    return getattr(node, "attr", getattr(node, "id", None))


@cache
def files():
    """The code outside the package, and of the package by room: lists of (room, uses)."""
    of_package = [path for path in ROOT.glob("tfdml/**/*.py") if path.name != "__init__.py"]
    others = [path for folder in CODE for path in ROOT.glob(f"{folder}/**/*.py")]
    return [(path.relative_to(ROOT).parts[:2][-1], Uses(path.read_text())) for path in [*of_package, *others]]


@cache
def pages():
    """The Python code of each page."""
    paths = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/**/*.md")]
    texts = [path.read_text() for path in paths]
    code = ("\n".join(re.findall(r"^```python.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)) for text in texts)
    return [Uses(text) for text in code if text]


def public():
    """Public names, as `room.name`, with what they stand for; `losses.functional` has the functions of the classes."""
    for entry in entries().values():
        if entry.room != "tfdml.losses.functional" and entry.qualified == entry.home:
            yield entry.qualified.removeprefix("tfdml."), entry.value


def has_user(name):
    """Whether code outside the room takes a name, or two pages, of which one may be its own."""
    room, _, last = name.rpartition(".")
    outside = (uses for where, uses in files() if where != room.partition(".")[0])
    return any(last in uses.names for uses in outside) or sum(last in uses.names for uses in pages()) > 1


def unused_options(name, value):
    """The options of a callable that no code and no page passes."""
    last = name.rpartition(".")[2]
    taking = [uses for _, uses in files() if last in uses.names] + [uses for uses in pages() if last in uses.names]
    passed = max((uses.positional(last) for uses in taking), default=0)
    options = [
        option.name
        for place, option in enumerate(parameters(value))
        if option.default is not option.empty
        and (option.kind is option.KEYWORD_ONLY or place >= passed)
        and not (name.startswith("losses.") and option.name in OF_EVERY_LOSS)
    ]
    return [option for option in options if not any(option in uses.options for uses in taking)]


def parameters(value):
    """The parameters of a function or class; none of a record, which a function returns, and without a signature."""
    if dataclasses.is_dataclass(value) and not {"__call__", "draw"} & set(dir(value)):
        return []
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []


def test_a_public_name_has_a_user_outside_its_room_and_its_page():
    listed = " ".join(NAMES.values()).split()
    without = [name for name, _ in public() if not has_user(name)]
    assert sorted(without) == sorted(listed), "give a new name a user; take a name that has one off the list"


def test_an_option_is_taken_by_a_recipe_a_study_a_page_or_a_benchmark():
    listed = {(name, option) for group in OPTIONS.values() for name, text in group.items() for option in text.split()}
    unused = {(name, option) for name, value in public() if callable(value) for option in unused_options(name, value)}
    assert unused == listed, "give a new option a user; take an option that has one off the list"


def lines_of(name):
    """The lines of code of a folder or a file; of the docs, those of the pages."""
    path = ROOT / name
    paths = [path] if path.is_file() else path.rglob("*.md" if name == "docs" else "*.py")
    return sum(len(each.read_text().splitlines()) for each in paths)


@pytest.mark.parametrize("name", BUDGETS)
def test_a_room_does_not_grow(name):
    assert lines_of(name) <= BUDGETS[name]


def test_each_room_has_a_budget():
    rooms = {f"tfdml/{path.name}" for path in (ROOT / "tfdml").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms - {"tfdml/__pycache__"} <= set(BUDGETS)
