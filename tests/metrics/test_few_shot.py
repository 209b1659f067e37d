"""Few-shot accuracy against loops, the episodes of the sampler, and examples done by hand."""

import math
import sys

import numpy as np
import pytest

from tests.oracles import unit
from tfdml.metrics import few_shot

module = sys.modules["tfdml.metrics.few_shot"]


def classes_of(counts, dim=6, noise=1.5, seed=0):
    """Embeddings around class centers, in mixed order."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return rng.normal(size=(len(counts), dim))[labels] + noise * rng.normal(size=(len(labels), dim)), labels


def accuracy_by_loops(support, queries, metric):
    """Accuracy of one episode: lists of vectors by class."""
    prototypes = [[math.fsum(column) / len(vectors) for column in zip(*vectors, strict=True)] for vectors in support]
    right = []
    for own, vectors in enumerate(queries):
        for q in vectors:
            if metric == "cosine":
                d = [-np.dot(q, p) / np.linalg.norm(p) for p in prototypes]
            else:
                d = [math.dist(q, p) ** 2 for p in prototypes]
            right.append(d.index(min(d)) == own)
    return np.mean(right)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("shots", [1, 4])
def test_accuracy_and_interval_are_those_of_loops_over_episodes(shots, metric, monkeypatch):
    x, labels = classes_of([12, 9, 20, 10])
    x = x.astype(np.float32)
    drawn = []
    draw = module._episode_rows
    monkeypatch.setattr(module, "_episode_rows", lambda *arguments: drawn.append(draw(*arguments)) or drawn[-1])
    monkeypatch.setattr(module, "_NUMBERS", 2000)
    got = few_shot(x, labels, ways=3, shots=shots, queries=5, episodes=40, metric=metric)
    assert len(drawn) > 1  # several blocks
    y = unit(x) if metric == "cosine" else x
    found = [
        accuracy_by_loops(y[rows[:, :shots]].tolist(), y[rows[:, shots:]].tolist(), metric)
        for rows in np.concatenate(drawn)
    ]
    deviation = math.sqrt(sum((one - np.mean(found)) ** 2 for one in found) / 39)
    assert got == pytest.approx({"accuracy": np.mean(found), "interval": 1.96 * deviation / math.sqrt(40)})


def test_episodes_draw_classes_and_examples_evenly_and_without_repeats():
    _, labels = classes_of([7, 5, 9, 6])
    classes = module._classes(labels, None, 3, 2, 3)
    rows = module._episode_rows(classes, np.random.default_rng(0), 4000, 3, 2, 3)
    assert rows.shape == (4000, 3, 5)
    assert (np.diff(np.sort(rows.reshape(4000, -1), axis=1)) > 0).all()
    drawn = labels[rows]
    assert (drawn == drawn[:, :, :1]).all()
    for part, examples in ((rows[:, :, :2], 2), (rows[:, :, 2:], 3)):
        counts = np.bincount(part.reshape(-1), minlength=len(labels))
        expected = 4000 * 3 / 4 * examples / np.bincount(labels)[labels]
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_the_seed_gives_the_episodes():
    x, labels = classes_of([20] * 6)
    options = {"queries": 5, "episodes": 50}
    assert few_shot(x, labels, **options) == few_shot(x, labels, **options)
    assert few_shot(x, labels, **options) != few_shot(x, labels, **options, seed=1)
    assert few_shot(x, 2**62 + labels, **options) == few_shot(x, labels, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shots": 5}, r"1 of 6 classes of fewer than shots \+ queries = 5 \+ 15 examples \(class 2 has 19\)"),
        ({"ways": 7}, "ways=7 and labels of 6 classes"),
        ({"ways": 1}, "ways=1, expected a whole number of at least 2"),
        ({"shots": 0}, "shots=0"),
        ({"queries": 0}, "queries=0"),
        ({"episodes": 1}, "episodes=1"),
        ({"seed": -1}, "seed=-1"),
        ({"metric": "dot"}, "metric='dot', expected one of 'euclidean', 'cosine'"),
        ({"labels": np.zeros(159, int)}, "labels of 1 classes"),
    ],
)
def test_wrong_arguments_are_errors(change, message):
    x, labels = classes_of([30, 30, 19, 30, 20, 30])
    with pytest.raises(ValueError, match=message):
        few_shot(**{"embeddings": x, "labels": labels, **change})


def designs_of(labels, seed=0):
    """Three uneven groups in each class, with ids that other classes have, too."""
    rng = np.random.default_rng(seed)
    return 2**40 + rng.choice(3, len(labels), p=[0.2, 0.3, 0.5])


def test_support_and_queries_of_a_class_have_different_groups():
    _, labels = classes_of([20, 25, 30, 22])
    groups = designs_of(labels)
    classes = module._classes(labels, groups, 3, 2, 4)
    rows = module._episode_rows(classes, np.random.default_rng(0), 4000, 3, 2, 4)
    assert (np.diff(np.sort(rows.reshape(4000, -1), axis=1)) > 0).all()
    assert (labels[rows] == labels[rows][:, :, :1]).all()
    support, queries = groups[rows[:, :, :2]], groups[rows[:, :, 2:]]
    assert (support == support[:, :, :1]).all()
    assert not (support[:, :, :1] == queries).any()
    for label in range(4):
        sizes = {group: ((labels == label) & (groups == group)).sum() for group in np.unique(groups)}
        possible = [group for group, size in sizes.items() if size >= 2 and sum(sizes.values()) - size >= 4]
        drawn = support[:, :, 0][labels[rows[:, :, 0]] == label]
        for group in possible:  # with equal probabilities
            assert (drawn == group).mean() == pytest.approx(1 / len(possible), abs=0.05)
        # Support examples of a group, and queries of the groups outside, are drawn evenly.
        of_label = rows[:, :, 0][labels[rows[:, :, 0]] == label]
        for group in possible:
            counts = np.bincount(of_label[groups[of_label] == group])
            counts = counts[counts > 0]
            assert len(counts) == sizes[group]
            assert (np.abs(counts - counts.mean()) < 5 * np.sqrt(counts.mean())).all()


def test_accuracy_with_groups_is_that_of_loops(monkeypatch):
    x, labels = classes_of([20, 25, 30, 22])
    drawn = []
    draw = module._episode_rows
    monkeypatch.setattr(module, "_episode_rows", lambda *arguments: drawn.append(draw(*arguments)) or drawn[-1])
    got = few_shot(x, labels, ways=3, shots=2, queries=4, episodes=30, groups=designs_of(labels), per_episode=True)
    found = [accuracy_by_loops(x[rows[:, :2]].tolist(), x[rows[:, 2:]].tolist(), "euclidean") for rows in drawn[0]]
    np.testing.assert_allclose(got["accuracy"], found)


def test_values_per_episode_have_the_mean_and_the_interval_and_can_be_subtracted():
    x, labels = classes_of([20] * 6)
    got = few_shot(x, labels, queries=5, episodes=50)
    values = few_shot(x, labels, queries=5, episodes=50, per_episode=True)["accuracy"]
    assert values.shape == (50,)
    assert got == {"accuracy": values.mean(), "interval": 1.96 * values.std(ddof=1) / math.sqrt(50)}
    scaled = few_shot(3 * x, labels, queries=5, episodes=50, per_episode=True)["accuracy"]
    np.testing.assert_array_equal(scaled - values, 0)  # the same episodes


def test_classes_that_groups_do_not_split_are_errors():
    x, labels = classes_of([20] * 6)
    groups = np.where(labels == 3, 0, np.arange(len(labels)) % 2)
    with pytest.raises(ValueError, match=r"1 of 6 classes \(class 3 is one\) in which no group has shots=1 examples"):
        few_shot(x, labels, queries=5, groups=groups)
    with pytest.raises(ValueError, match=r"groups of shape \(3,\)"):
        few_shot(x, labels, queries=5, groups=[0, 1, 1])
