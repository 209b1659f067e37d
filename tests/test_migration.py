"""Pages for users of other libraries name everything that these have, and say the same only where it is so."""

import ast
import functools
import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest

import tfdml
from tests.backend import numbers
from tests.losses import test_peers
from tfdml import losses, metrics, miners, pairs
from tfdml.losses import base

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PEERS = json.loads(Path(__file__).with_name("peers.json").read_text())
PAGES = {library: DOCS / f"from-{library.replace('_', '-')}.md" for library in PEERS["libraries"]}
PML = PAGES["pytorch_metric_learning"].read_text()
SENTENCES = PAGES["sentence_transformers"].read_text()
LABELS, EMBEDDINGS = np.array(PEERS["labels"]), np.array(PEERS["embeddings"])


def codes(text):
    """Everything between backticks of a page, without its blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def rows(text):
    """The cells of each row of the tables of a page."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]


def of_tfdml(code):
    """Expressions of a piece of code that begin with a room of tfdml: the names, and their keywords if it is a call."""
    try:
        tree = ast.parse(code, mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"[\w.]+", ast.unparse(node)):
            calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and call.func is node]
            yield ast.unparse(node).split("."), [keyword.arg for call in calls for keyword in call.keywords]


def options_of(thing):
    """Names of the arguments of a function or a class."""
    is_loss = inspect.isclass(thing) and issubclass(thing, tfdml.losses.PairLoss)
    return set(base.options_of(thing) if is_loss else inspect.signature(thing).parameters)


def unknown_names(text):
    """Names and keywords on a page that tfdml does not have."""
    for code in map(lambda code: code.removeprefix("tfdml."), codes(text)):
        for (room, *names), keywords in of_tfdml(code):
            if room in tfdml.__all__:
                thing = functools.reduce(lambda thing, name: getattr(thing, name, None), [room, *names], tfdml)
                options = options_of(thing) if callable(thing) else set()
                if thing is None or not options.issuperset(keywords):
                    yield code


@pytest.mark.parametrize("library", PAGES)
def test_a_page_names_everything_that_the_library_has(library):
    words = {word for row in rows(PAGES[library].read_text()) for word in re.findall(r"\w+", row[0])}
    names = PEERS["libraries"][library]["names"]
    assert {room: sorted(set(names[room]) - words) for room in names} == {room: [] for room in names}


def test_the_page_of_pytorch_metric_learning_names_its_metrics():
    assert set(PEERS["metrics"]) <= set(codes(PML))


@pytest.mark.parametrize("page", [*PAGES.values(), DOCS / "addons.md"], ids=lambda page: page.stem)
def test_names_and_options_on_a_page_are_those_of_tfdml(page):
    assert list(unknown_names(page.read_text())) == []


def test_the_version_is_the_one_of_the_benchmarks():
    version = PEERS["libraries"]["pytorch_metric_learning"]["version"]
    assert f"pytorch-metric-learning=={version} " in (ROOT / "requirements" / "peers.lock").read_text()
    assert f"pytorch-metric-learning {version}" in PML


def losses_called_the_same():
    """Losses of the peer whose row says that the value is the same."""
    first = PML.partition("## Miners")[0]
    return {codes(row[0])[0] for row in rows(first) if row[-1].startswith("same")}


def test_each_loss_that_is_called_the_same_is_compared():
    compared = {loss for name, loss in PEERS["compared losses"].items() if name in test_peers.COMPARED}
    assert losses_called_the_same() == compared


OURS = {
    "AngularMiner": miners.Angular(angle_degrees=25),
    "BatchEasyHardMiner, easy positives": miners.EasyPositives(),
    "BatchEasyHardMiner, hard positives": miners.HardestPositives(),
    "MultiSimilarityMiner": miners.ValidTriplets(margin=0.1),
    "PairMarginMiner": miners.PairMargin(positive_margin=0.6, negative_margin=1.2),
    "TripletMarginMiner": miners.TripletViolations(margin=0.1, distance="euclidean"),
    "TripletMarginMiner, hard": miners.TripletViolations(margin=0.0, distance="euclidean"),
    "TripletMarginMiner, semihard": miners.SemiHard(min_distance="positive", margin=0.1),
}


def selected(weights):
    """Pairs (anchor, reference) of a weight above 0, sorted."""
    return np.argwhere(numbers(weights) > 0).tolist()


@pytest.mark.parametrize("name", OURS)
def test_miners_select_the_pairs_of_the_peer(name):
    batch = pairs.all_pairs(LABELS, EMBEDDINGS.astype("float32"))
    mined = OURS[name](batch if name == "AngularMiner" else pairs.normalized(batch))
    positive, negative = PEERS["selections"][name]
    assert selected(mined.negative) == negative
    if "semihard" not in name:  # keeps all positives
        assert selected(mined.positive) == positive


def test_every_selection_is_compared():
    assert sorted(OURS) == sorted(PEERS["selections"])


def test_metrics_are_those_of_the_peer():
    received = metrics.retrieval(EMBEDDINGS, LABELS, k=1)
    names = {row[0].strip("`"): codes(row[1])[0] for row in rows(PML) if row[0].strip("`") in PEERS["accuracies"]}
    assert len(names) == len(PEERS["accuracies"])
    for name, key in names.items():
        assert received[key] == pytest.approx(PEERS["accuracies"][name], rel=1e-7), name


def cosines(x, y):
    """Cosine similarities of all rows of two matrices."""
    return (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T


def distances(x):
    """Euclidean distances of all rows."""
    return np.linalg.norm(x[:, None] - x[None], axis=2)


def ranking(s):
    """Minus the mean logarithm of the softmax of each row at its diagonal."""
    return np.mean(np.log(np.exp(s).sum(axis=1)) - np.diag(s))


def positives_and_negatives(d, labels):
    """Distances of the positives and of the negatives of each row."""
    for row, label in enumerate(labels):
        others = np.arange(len(labels)) != row
        yield d[row, others & (labels == label)], d[row, labels != label]


def batch_all(x, labels):
    sides = positives_and_negatives(distances(x), labels)
    terms = np.concatenate([np.ravel(5.0 + near[:, None] - far) for near, far in sides])
    return terms[terms > 0].mean()


def batch_hard(x, labels, value):
    return np.mean([value(near.max() - far.min()) for near, far in positives_and_negatives(distances(x), labels)])


# Losses of sentence-transformers that its page calls the same: formula of rows and labels, the labels, the factor.
BY_CLASS, BY_PAIR, SAME = np.repeat([0, 1, 2], 2), np.repeat([4, 5, 6], 2), np.repeat([1, 0, 1], 2)
FORMULAS = {
    "MultipleNegativesRankingLoss": (lambda x, y: ranking(20 * cosines(x[0::2], x[1::2])), BY_PAIR, 1.0),
    "ContrastiveLoss": (
        lambda x, y: np.mean(
            [
                0.5 * (same * (1 - s) ** 2 + (1 - same) * max(0, 0.5 - (1 - s)) ** 2)
                for same, s in zip(y[0::2], np.diag(cosines(x[0::2], x[1::2])), strict=True)
            ]
        ),
        SAME,
        0.5,
    ),
    "CosineSimilarityLoss": (lambda x, y: np.mean((y[0::2] - np.diag(cosines(x[0::2], x[1::2]))) ** 2), SAME, 2.0),
    "TripletLoss": (
        lambda x, y: np.mean([max(0, d[0, 1] - d[0, 2] + 5) for d in (distances(x[:3]), distances(x[3:]))]),
        BY_CLASS,
        1.0,
    ),
    "BatchAllTripletLoss": (batch_all, BY_CLASS, 1.0),
    "BatchHardTripletLoss": (lambda x, y: batch_hard(x, y, lambda d: max(0, d + 5)), BY_CLASS, 1.0),
    "BatchHardSoftMarginTripletLoss": (lambda x, y: batch_hard(x, y, lambda d: np.log1p(np.exp(d))), BY_CLASS, 1.0),
}
SYMMETRIC = "MultipleNegativesSymmetricRankingLoss"


def loss_of_the_page(name):
    """The loss that stands beside one of sentence-transformers on its page."""
    (code,) = (codes(row[1])[0] for row in rows(SENTENCES) if row[0] == f"`{name}`")
    return eval(code, {"losses": losses, "pairs": pairs})


@pytest.mark.parametrize("name", FORMULAS)
def test_losses_are_those_of_sentence_transformers_up_to_the_stated_factor(name):
    formula, labels, factor = FORMULAS[name]
    x = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    x[1] = x[0] - 0.1 * x[1]
    received = float(loss_of_the_page(name)(labels, x))
    assert factor * received == pytest.approx(formula(x.astype(float), labels), rel=1e-5)


def test_the_symmetric_loss_is_that_of_sentence_transformers():
    queries, gallery = np.random.default_rng(0).standard_normal((2, 5, 4)).astype("float32")
    s = 20 * cosines(queries, gallery)
    loss = loss_of_the_page(SYMMETRIC)
    received = float(loss(np.arange(5), np.stack([queries, gallery], axis=1)))
    assert received == pytest.approx((ranking(s) + ranking(s.T)) / 2, rel=1e-5)


def test_each_loss_of_sentence_transformers_that_is_called_the_same_is_compared():
    called_same = {codes(row[0])[0] for row in rows(SENTENCES) if row[-1].startswith("same")}
    assert called_same == FORMULAS.keys() | {SYMMETRIC}
