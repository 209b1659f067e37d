"""What `tfdml.evaluate` finds, by arithmetic on points whose neighbors can be seen."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest

import tfdml
from tfdml.datasets import LabeledSet

NAMES = ("cat", "dog", "fox")


def at(*degrees):
    """Points of the unit circle."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")


# Cats near 0 degrees, dogs near 90, foxes near 180. Row 4 is called a cat and lies among the dogs. Row 9 is the last
# fox, and lies among the dogs, too: its nearest ones are 8, 7 (dogs), 4 (called a cat) and 6, 5 (dogs), then a fox.
POINTS = at(0, 2, 5, 9, 93, 90, 92, 95, 99, 101, 178, 180, 183)
LABELS = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
ANIMALS = LabeledSet(images=POINTS[:, None, :, None], labels=LABELS, class_names=NAMES)


def random_set(examples=120, classes=12, dim=8):
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), examples // classes)
    return (random.normal(size=(classes, dim))[labels] + random.normal(size=(examples, dim))).astype("float32"), labels


def test_the_metrics_are_those_of_retrieval_with_their_intervals_over_classes():
    x, labels = random_set()
    found = tfdml.evaluate(x, labels, k=(1, 5))
    means = tfdml.metrics.retrieval(x, labels, k=(1, 5), full_map=False)
    values = tfdml.metrics.retrieval(x, labels, k=(1, 5), full_map=False, per_query=True)
    assert list(found.metrics) == ["map@r", "recall@1", "recall@5", "r_precision", "mrr"]
    for name, (value, low, high) in found.metrics.items():
        assert value == pytest.approx(means[name], abs=1e-12)
        assert (low, high) == tfdml.metrics.class_interval(values[name], labels)
    assert (found.queries, found.skipped, found.items, found.units) == (120, 0, 120, 12)
    recall = found.details["model"].recall
    at_five = recall.y[np.flatnonzero(recall.x == 5)]
    assert at_five == pytest.approx(means["recall@5"])


def test_the_hardest_query_is_the_one_whose_first_relevant_item_ranks_last():
    found = tfdml.evaluate(POINTS, ANIMALS, k=1).details["model"]
    second, first = found.hardest[:2]  # of equal rank, in the order of their rows
    assert (first.query.row, first.query.class_name, first.rank) == (9, "fox", 6)
    assert [each.example.row for each in first.neighbors] == [8, 7, 4, 6, 5, 10, 11, 12]
    assert [each.relevant for each in first.neighbors] == [False] * 5 + [True] * 3
    assert first.neighbors[0].similarity == pytest.approx(np.cos(np.radians(2)), abs=1e-6)
    assert (second.query.row, second.rank) == (4, 6)  # 6, 7, 5, 8 and 9 are nearer than the other cats
    assert found.hardest[2].rank == 2
    assert all(each.rank > 1 for each in found.hardest)


def test_the_hardest_query_of_right_ones_is_the_least_similar_to_its_first_neighbor():
    found = tfdml.evaluate(at(0, 3, 90, 95, 180, 181), np.arange(6) // 2, k=1, shown=3).details["model"]
    assert [(each.query.row, each.rank) for each in found.hardest] == [(2, 1), (3, 1), (0, 1)]


def test_label_suspects_are_those_whose_neighbors_agree_on_another_class():
    found = tfdml.evaluate(POINTS, ANIMALS, k=1).details["model"]
    (suspect,) = found.label_suspects
    assert (suspect.query.row, suspect.query.class_name, suspect.suggested, suspect.agreeing) == (4, "cat", "dog", 4)
    assert found.suspects == 1


def test_confusions_count_the_wrong_first_neighbors_of_each_class():
    found = tfdml.evaluate(POINTS, ANIMALS, k=1).details["model"]
    pairs = {(each.class_name, each.other): (each.errors, each.queries) for each in found.confusions}
    # 5, 6 and 7 have each other and the false cat around them: 92 and 95 degrees are nearest to 93, 90 to 92.
    assert pairs == {("dog", "cat"): (2, 4), ("cat", "dog"): (1, 5), ("fox", "dog"): (1, 4)} | {("dog", "fox"): (1, 4)}
    assert found.confusions[0].errors == 2


def test_near_duplicates_are_the_nearest_pairs_and_each_is_listed_once():
    x = np.concatenate([at(0, 50, 50, 120, 200), 3 * at(120)])
    evaluation = tfdml.evaluate(x, np.array([0, 1, 1, 0, 1, 1]), k=1, shown=2)
    assert "ties" in evaluation.notes[0]
    found = evaluation.details["model"].near_duplicates
    assert [(each.query.row, each.neighbor.example.row, each.neighbor.relevant) for each in found] == [
        (1, 2, True),
        (3, 5, False),
    ]
    assert [each.neighbor.similarity for each in found] == [1.0, 1.0]


def test_a_query_with_more_copies_than_neighbors_never_finds_itself():
    x = np.concatenate([np.ones((20, 2)), at(0, 180)])
    found = tfdml.evaluate(x, np.arange(22) // 2, k=1, shown=22).details["model"]
    assert found.hardest
    assert all(each.query.row not in [near.example.row for near in each.neighbors] for each in found.hardest)


def test_queries_search_in_a_gallery_from_which_nothing_is_removed():
    queries = LabeledSet(images=np.zeros((2, 4, 4, 1), "uint8"), labels=[0, 1], class_names=NAMES)
    items = LabeledSet(images=np.zeros((3, 4, 4, 1), "uint8"), labels=[1, 0, 1], class_names=NAMES)
    options = {"gallery": items, "gallery_embeddings": at(0, 40, 90), "k": (1, 2)}
    found = tfdml.evaluate(at(0, 91), queries, **options)
    assert found.protocol == "own-data/query-gallery/exact-cosine/v1"
    assert (found.items, found.queries) == (3, 2)
    assert [found.metrics[f"recall@{k}"].value for k in (1, 2)] == [0.5, 1.0]
    (hard,) = found.details["model"].hardest
    assert (hard.query.row, hard.neighbors[0].example.class_name) == (0, "dog")
    assert hard.neighbors[0].similarity == 1.0


def test_a_model_embeds_the_set_and_each_tower_its_own_side():
    inputs = keras.Input((1, 2, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    by_model = tfdml.evaluate(model, ANIMALS, k=1)
    assert by_model.as_dict() == tfdml.evaluate(POINTS, ANIMALS, k=1).as_dict()
    mirrored = keras.Model(inputs, keras.ops.flip(keras.layers.Flatten()(inputs), axis=1))
    towers = tfdml.models.TwoTowers(model, mirrored)
    mirror = LabeledSet(images=ANIMALS.images[::-1, :, ::-1], labels=LABELS[::-1], class_names=NAMES)
    found = tfdml.evaluate(towers, ANIMALS, gallery=mirror, k=1)
    assert found.metrics["recall@1"].value == 1.0  # each point finds itself in the mirror, mirrored back


def test_queries_without_a_relevant_item_are_counted_and_in_no_mean():
    found = tfdml.evaluate(np.concatenate([POINTS, at(270)]), np.append(LABELS, 7), k=1)
    assert (found.queries, found.skipped, found.items, found.units) == (13, 1, 14, 3)
    assert found.metrics["recall@1"] == tfdml.evaluate(POINTS, LABELS, k=1).metrics["recall@1"]


def test_it_prints_its_verdict_and_a_table_with_the_protocol():
    found = tfdml.evaluate(POINTS, replace(ANIMALS, protocol="animals/v1"), k=1)
    value = f"{100 * found.metrics['recall@1'].value:.1f}"
    text = " ".join(str(found).split())
    assert text.startswith(f"The nearest item has the class of the query for {value}% of the queries. 13 queries of 3 ")
    assert "13 queries of 3 classes in 13 items; protocol: animals/v1. In %, with" in text
    assert f"recall@1 {value} r_precision" in text
    assert "No interval: 3 classes; a 95% interval needs 6." in text


def test_several_models_are_compared_on_the_same_queries():
    x, labels = random_set()
    noise = x + 2 * np.random.default_rng(1).normal(size=x.shape)
    for main, options in {"map@r": {}, "mrr": {"main": "mrr"}}.items():
        found = tfdml.evaluate({"plain": x, "noisy": noise}, labels, k=1, **options)
        values = {name: each[main] for name, each in found.per_query.items()}
        expected = tfdml.metrics.paired_comparison(values["plain"], values["noisy"], labels, names=("plain", "noisy"))
        assert (found.main, found.pairs[0].comparison) == (main, expected)
    with pytest.raises(ValueError, match="main='map', expected one of 'map@r'"):
        tfdml.evaluate(x, labels, main="map")
    assert found.means["noisy"] == tfdml.evaluate(noise, labels, k=1).metrics
    assert list(found.details) == ["plain", "noisy"]
    assert found.verdict.endswith(": better than noisy.")
    with pytest.raises(ValueError, match="gallery_embeddings of"):
        tfdml.evaluate({"a": x, "b": x}, labels, gallery=labels, gallery_embeddings={"a": x})


def test_good_and_bad_queries_are_those_of_the_highest_and_lowest_values_of_three_classes():
    found = tfdml.evaluate(POINTS, ANIMALS, k=1)
    values = found.per_query["model"]["map@r"]
    assert [LABELS[list(rows)].tolist() for rows in (found.good, found.bad)] == [[2, 0, 1], [0, 2, 1]]
    assert found.bad[:2] == (4, 9)
    assert values[list(found.good)].tolist() == [max(values[found.labels == label]) for label in (2, 0, 1)]
    assert found.neighbors["model"][9][0].example.row == 8


def test_the_folder_holds_every_number_and_the_same_call_writes_the_same_files(tmp_path):
    found = tfdml.evaluate(POINTS, ANIMALS, k=1)
    path = found.save(tmp_path / "a") / "evaluation.json"
    kept = json.loads(path.read_text())
    assert kept == json.loads(json.dumps(found.as_dict()))
    assert kept["means"]["model"]["recall@1"] == {"value": found.metrics["recall@1"].value, "low": None, "high": None}
    hardest = kept["details"]["model"]["hardest"][0]
    assert hardest["neighbors"][0]["example"] == {"row": 6, "name": "6", "class_name": "dog"}
    assert "cores" in kept["environment"]["hardware"]
    again = tfdml.evaluate(POINTS, ANIMALS, k=1).save(tmp_path / "b")
    assert all(
        (again / name).read_bytes() == (tmp_path / "a" / name).read_bytes() for name in ("index.html", path.name)
    )


@pytest.mark.parametrize(
    ("embeddings", "data", "options", "message"),
    [
        (np.where(np.eye(13, 2), np.nan, 1), LABELS, {}, "NaN"),
        (np.ones((13, 2)), LABELS, {}, "all the same"),
        (POINTS, LABELS[1:], {}, r"labels of shape \(12,\)"),
        (POINTS, LABELS / 2, {}, "expected integers"),
        (POINTS, LABELS, {"k": 13}, "12 candidates"),
        (POINTS, np.arange(13), {}, "13 queries without a relevant item"),
        (POINTS, np.zeros(13, int), {}, "one class"),
        (POINTS, LABELS, {"gallery": LABELS}, "a gallery and no gallery_embeddings"),
        (POINTS, LABELS, {"gallery_embeddings": POINTS}, "no gallery and gallery_embeddings"),
        (POINTS, LABELS, {"gallery_embeddings": POINTS[:0], "gallery": LABELS[:0]}, "0 gallery items|no vectors"),
        (POINTS, LABELS, {"shown": -1}, "shown=-1"),
        (POINTS, LABELS, {"seed": 0.5}, "seed=0.5"),
    ],
)
def test_wrong_input_is_an_error_of_the_call(embeddings, data, options, message):
    with pytest.raises(ValueError, match=message):
        tfdml.evaluate(embeddings, data, **{"k": 1, **options})


def test_a_gallery_of_other_classes_and_a_model_without_a_set_are_refused():
    other = LabeledSet(images=ANIMALS.images, labels=LABELS, class_names=("a", "b", "c"))
    with pytest.raises(ValueError, match="other class names"):
        tfdml.evaluate(POINTS, ANIMALS, gallery=other, gallery_embeddings=POINTS)
    inputs = keras.Input((1, 2, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    with pytest.raises(ValueError, match="data of type ndarray"):
        tfdml.evaluate(model, LABELS)
    with pytest.raises(ValueError, match="two towers without gallery="):
        tfdml.evaluate(tfdml.models.TwoTowers(model, model), ANIMALS)
