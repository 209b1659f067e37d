"""HPatches from a miniature release in the original format, and its tasks by loops."""

import json

import numpy as np
import pytest
from PIL import Image

from recipes.patches import hpatches, hpatches_scores

COUNTS = {"i_lake": 2, "v_tower": 3, "v_wall": 2}
FILES = ["ref"] + [f"{jitter}{i}" for jitter in "eht" for i in range(1, 6)]
RANDOM = np.random.default_rng(0)
PIXELS = {
    (sequence, file): RANDOM.integers(0, 256, (count, 65, 65), np.uint8)
    for sequence, count in COUNTS.items()
    for file in FILES
}
POSITIVE = [("v_tower", 0, 2, "v_tower", 3, 2), ("i_lake", 4, 1, "i_lake", 1, 1)] * 5
INTRA = [("v_tower", 0, 2, "v_tower", 3, 1), ("i_lake", 4, 1, "i_lake", 1, 0)] * 5
INTER = [("v_tower", 0, 2, "i_lake", 3, 1), ("i_lake", 4, 1, "v_tower", 1, 1)] * 5
QUERIES = [("v_tower", 1), ("i_lake", 0)]
DISTRACTORS = [("i_lake", 1), ("v_tower", 0), ("v_tower", 2), ("i_lake", 0)]


def write_csv(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture
def root(tmp_path):
    for (sequence, file), pixels in PIXELS.items():
        folder = tmp_path / "hpatches-release" / sequence
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.reshape(-1, 65)).save(folder / f"{file}.png")
    tasks = tmp_path / "tasks"
    (tasks / "splits").mkdir(parents=True)
    splits = {
        "a": {"name": "a", "train": ["v_wall"], "test": ["v_tower", "i_lake"]},
        "full": {"name": "full", "test": list(COUNTS)},
    }
    (tasks / "splits" / "splits.json").write_text(json.dumps(splits))
    for name, rows in (("pos", POSITIVE), ("neg_intra", INTRA), ("neg_inter", INTER)):
        write_csv(tasks / f"verif_{name}_split-a.csv", "s1,t1,idx1,s2,t2,idx2", rows)
    write_csv(tasks / "retr_queries_split-a.csv", "s,idx", QUERIES)
    write_csv(tasks / "retr_distractors_split-a.csv", "s,idx", DISTRACTORS)
    return tmp_path / "hpatches-release"


def test_columns_become_patches_and_places_classes(root):
    train, test = hpatches(root)
    assert (len(train), len(test)) == (2 * 16, 5 * 16)
    assert test.sequence_names == ("i_lake", "v_tower")
    assert test.class_names == ("i_lake 0", "i_lake 1", "v_tower 0", "v_tower 1", "v_tower 2")
    np.testing.assert_array_equal(np.bincount(test.labels), [16] * 5)
    assert test.protocol == "hpatches/split-a/matching/v1"
    assert train.protocol == "hpatches/split-a-train/matching/v1"
    images = test.examples()
    assert images.shape == (80, 65, 65, 1)
    for row in (0, 31, 32, 79):
        sequence, file = test.sequence_names[test.groups[row]], test.file_names[test.files[row]]
        np.testing.assert_array_equal(images[row, ..., 0], PIXELS[sequence, file][test.numbers[row]])
        assert test.class_names[test.labels[row]] == f"{sequence} {test.numbers[row]}"
        assert test.rows([sequence], [file], [test.numbers[row]]).tolist() == [row]


@pytest.fixture
def embedded(root):
    _, test = hpatches(root)
    x = np.random.default_rng(1).normal(size=(len(test.class_names), 6))[test.labels]
    return test, (x + np.random.default_rng(2).normal(size=(len(test), 6))).astype(np.float32)


def average_precision(scores, labels, num_positives):
    """The rule of the benchmark: a curve that begins at precision 1, by trapezoids."""
    area, hits, last = 0.0, 0, (0.0, 1.0)
    for rank, i in enumerate(np.argsort(-np.asarray(scores), kind="stable"), start=1):
        hits += labels[i]
        point = hits / num_positives, hits / rank
        area += (point[0] - last[0]) * (point[1] + last[1]) / 2
        last = point
    return area


def at(test, x, sequence, file, number):
    return x[test.rows([sequence], [file], [number])[0]].astype(float)


def distance(one, other):
    return np.linalg.norm(one - other)


def test_matching_is_that_of_loops(embedded):
    test, x = embedded
    numbers = hpatches_scores(x, test, tasks=["matching"])
    for jitter in ("easy", "hard", "tough"):
        values = []
        for sequence in test.sequence_names:
            for image in range(1, 6):
                places = range(COUNTS[sequence])
                d = [
                    [
                        distance(at(test, x, sequence, "ref", i), at(test, x, sequence, f"{jitter[0]}{image}", j))
                        for j in places
                    ]
                    for i in places
                ]
                labels = [int(np.argmin(row)) == i for i, row in enumerate(d)]
                values.append(average_precision([-min(row) for row in d], labels, len(d)))
        assert numbers[f"matching@{jitter}"] == pytest.approx(np.mean(values))
    assert numbers["matching"] == pytest.approx(np.mean([numbers[f"matching@{j}"] for j in ("easy", "hard", "tough")]))


def test_verification_is_that_of_loops(embedded):
    test, x = embedded
    numbers = hpatches_scores(x, test, tasks=["verification"])
    aucs, precisions = [], []
    for negatives in (INTRA, INTER):
        scores = []
        for s1, t1, i1, s2, t2, i2 in negatives + POSITIVE:
            files = [f"h{t}" if t else "ref" for t in (t1, t2)]
            scores.append(-distance(at(test, x, s1, files[0], i1), at(test, x, s2, files[1], i2)))
        won = [(p > n) + (p == n) / 2 for p in scores[10:] for n in scores[:10]]
        aucs.append(np.mean(won))
        precisions.append(average_precision(scores[:12], [0] * 10 + [1] * 2, 2))
    assert numbers["verification_auc@hard"] == pytest.approx(np.mean(aucs))
    assert numbers["verification_ap@hard"] == pytest.approx(np.mean(precisions))


def test_retrieval_leaves_out_distractors_of_the_sequence_of_the_query(embedded):
    test, x = embedded
    numbers = hpatches_scores(x, test, tasks=["retrieval"], pools=(6, 7, 100))
    for pool in (6, 7, 100):
        values = []
        for sequence, number in QUERIES:
            query = at(test, x, sequence, "ref", number)
            positives = [distance(query, at(test, x, sequence, f"t{image}", number)) for image in range(1, 6)]
            others = [distance(query, at(test, x, s, "ref", i)) for s, i in DISTRACTORS if s != sequence]
            d = (positives + others)[:pool]
            values.append(average_precision([-v for v in d], [1] * 5 + [0] * (len(d) - 5), 5))
        assert numbers[f"retrieval@{pool}@tough"] == pytest.approx(np.mean(values))
