"""Lists of pairs in the format of Labeled Faces in the Wild."""

import numpy as np
import pytest

from tfdml import evaluation, samplers
from tfdml.datasets import LabeledSet, judged_pairs, verification_pairs
from tfdml.datasets.public import lfw_pairs

LIST = """2\t1
Abel_Pacheco\t1\t4
Abdel_Madi_Shabneh\t1\tDean_Barker\t1
George_W_Bush\t10\t530
Abel_Pacheco\t4\tGeorge_W_Bush\t10
"""


LINES = LIST.splitlines(keepends=True)


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "pairs.txt").write_text(text)
        return tmp_path / "pairs.txt"

    return write


def test_two_folds_are_read_in_the_order_of_the_list(written):
    pairs = lfw_pairs(written(LIST))
    assert len(pairs) == 4
    assert pairs.same.tolist() == [True, False, True, False]
    assert pairs.folds.tolist() == [0, 0, 1, 1]
    assert pairs.names[pairs.first].tolist() == [
        "Abel_Pacheco/Abel_Pacheco_0001.jpg",
        "Abdel_Madi_Shabneh/Abdel_Madi_Shabneh_0001.jpg",
        "George_W_Bush/George_W_Bush_0010.jpg",
        "Abel_Pacheco/Abel_Pacheco_0004.jpg",
    ]
    assert pairs.names[pairs.second].tolist() == [
        "Abel_Pacheco/Abel_Pacheco_0004.jpg",
        "Dean_Barker/Dean_Barker_0001.jpg",
        "George_W_Bush/George_W_Bush_0530.jpg",
        "George_W_Bush/George_W_Bush_0010.jpg",
    ]
    assert len(pairs.names) == len(set(pairs.names.tolist())) == 6


def test_the_lists_for_development_have_no_folds(written):
    pairs = lfw_pairs(written("2\nA\t1\t2\nB\t1\t3\nA\t1\tB\t1\nC\t1\tB\t2\n"))
    assert pairs.folds is None
    assert pairs.same.tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2\t1\n", "", r"line 1 of .*pairs.txt': 'Abel_Pacheco 1 4', expected the numbers of folds"),
        ("2\t1\n", "name\timagenum1\timagenum2\n", "line 1 .* expected the numbers of folds"),
        ("2\t1\n", "0\t1\n", "line 1 .* expected the numbers of folds"),
        ("2\t1\n", "3\t1\n", r"with 4 pairs, expected 6, which is 3 times 1 matched .* folds are missing"),
        ("2\t1\n", "1\t1\n", "with 4 pairs, expected 2"),
        ("George_W_Bush\t10\t530\n", "", "with 3 pairs, expected 4"),
        ("Abel_Pacheco\t1\t4", "Abel_Pacheco,1,4,", "line 2 .*'Abel_Pacheco,1,4,', expected a matched pair"),
        ("Abel_Pacheco\t1\t4", "Abel_Pacheco\t1\tfour", "line 2 .* expected a matched pair"),
        ("Dean_Barker\t1", "Dean_Barker", "line 3 .* expected a mismatched pair"),
        ("Dean_Barker", "..", "line 3 .* expected a mismatched pair"),
        ("Abel_Pacheco\t1\t4", "../../a\t1\t4", "line 2 .* expected a matched pair"),
        ("Dean_Barker", "Abdel_Madi_Shabneh", "line 3 .* another name"),
        (LIST, "", "line 1 .*: '', expected the numbers of folds"),
        (LINES[1] + LINES[2], LINES[2] + LINES[1], "line 2 .* expected a matched"),
    ],
)
def test_a_list_of_another_form_is_an_error_that_names_the_line(old, new, message, written):
    assert old in LIST
    with pytest.raises(ValueError, match=message):
        lfw_pairs(written(LIST.replace(old, new)))


def test_a_list_that_is_not_utf8_is_an_error_that_names_the_line(tmp_path):
    (tmp_path / "pairs.txt").write_bytes(LIST.replace("Dean", "D\xe9an").encode("latin-1"))
    with pytest.raises(ValueError, match=r"line 3 of .*pairs.txt' with the byte 0xe9, expected a text file in UTF-8"):
        lfw_pairs(tmp_path / "pairs.txt")


# Lists that are drawn from labels.


LABELS = np.repeat(np.arange(40), np.tile([1, 4, 9, 20], 10))


def test_drawn_pairs_have_their_kind_and_no_class_is_in_two_folds():
    pairs = verification_pairs(LABELS, folds=4, matched=30)
    a, b = LABELS[pairs.first], LABELS[pairs.second]
    assert (a == b).tolist() == pairs.same.tolist() == 4 * (30 * [True] + 30 * [False])
    assert pairs.folds.tolist() == np.repeat(np.arange(4), 60).tolist()
    fold_of_class = {}
    for fold, *labels in zip(pairs.folds.tolist(), a.tolist(), b.tolist(), strict=True):
        assert {fold_of_class.setdefault(label, fold) for label in labels} == {fold}


def test_no_pair_is_drawn_twice_and_none_is_an_image_with_itself():
    pairs = verification_pairs(LABELS, folds=2, matched=100)
    both = {frozenset(pair) for pair in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)}
    assert len(both) == len(pairs) == 400
    assert all(len(pair) == 2 for pair in both)


def test_all_pairs_are_drawn_if_all_are_asked_for():
    # Classes of 3 and 2 images: four matched pairs and six mismatched ones.
    pairs = verification_pairs([5, 5, 5, 8, 8], folds=1, matched=4)
    matched = {tuple(sorted(pair)) for pair in zip(pairs.first[:4].tolist(), pairs.second[:4].tolist(), strict=True)}
    assert matched == {(0, 1), (0, 2), (1, 2), (3, 4)}


def test_classes_are_drawn_with_the_same_probability():
    labels = np.repeat(np.arange(4), [200, 200, 200, 600])
    pairs = verification_pairs(labels, folds=1, matched=4000)
    counts = np.bincount(labels[pairs.first[:4000]], minlength=4)
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(4000 * 0.25 * 0.75)


def test_the_seed_makes_the_pairs():
    first, again, other = (verification_pairs(LABELS, folds=4, matched=30, seed=seed) for seed in (0, 0, 1))
    assert first.first.tolist() == again.first.tolist() != other.first.tolist()


def test_pairs_of_a_set_are_rows_without_names():
    files = LabeledSet(
        paths=np.array([f"{row}.jpg" for row in range(len(LABELS))]),
        load=lambda path: path,
        labels=LABELS,
        class_names=tuple(map(str, range(40))),
    )
    pairs, same = verification_pairs(files, folds=2, matched=9), verification_pairs(LABELS, folds=2, matched=9)
    assert pairs.names is same.names is None
    np.testing.assert_array_equal(pairs.first, same.first)
    assert (LABELS[pairs.first] == LABELS[pairs.second]).tolist() == pairs.same.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 21}, "40 classes for folds=21, expected at least 42, two per fold"),
        ({"folds": 0}, "folds=0"),
        ({"matched": 0}, "matched=0"),
        ({"matched": 1000}, "different matched pairs, expected at least matched=1000"),
        ({"seed": 0.5}, "seed=0.5"),
    ],
)
def test_pairs_that_cannot_be_drawn_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        verification_pairs(LABELS, **options)


def test_too_few_mismatched_pairs_are_an_error():
    with pytest.raises(ValueError, match="a fold with 9 different mismatched pairs"):
        verification_pairs(np.repeat([0, 1], [9, 1]), folds=1, matched=10)


JUDGED = "7\t0\t9\t1\n7\t0\t8\t0\nmy%20cat.png\t0\t7\t1\n8\t0\t9\t-1\n"


def test_judgements_of_a_search_are_pairs_and_what_a_comparison_reads(tmp_path):
    path = tmp_path / "judgements.tsv"
    path.write_text(JUDGED)
    pairs = judged_pairs(path, [7, 8, 9])
    assert (pairs.first.tolist(), pairs.second.tolist()) == ([0, 0, 1], [2, 1, 2])
    assert pairs.same.tolist() == [True, False, False]
    entries = np.stack([pairs.first, pairs.second], axis=1)
    sampler = samplers.ListSampler(
        entries=entries, labels=pairs.same.astype(int), sampler=samplers.UniformSampler(batch_size=2, seed=0)
    )
    rows = sampler.index_batches(np.zeros(3, int))[0]
    assert {tuple(pair) for pair in np.reshape(rows, (-1, 2)).tolist()} <= set(map(tuple, entries.tolist()))
    run = {"7": {"9": 2.0, "8": 1.0}, "my%20cat.png": {"8": 1.0, "7": 0.5}}
    assert evaluation.compare_runs({"a": run}, path, metrics=("mrr",)).means["a"]["mrr"].value == 0.75


def test_ids_that_are_text_are_written_in_percent(tmp_path):
    (tmp_path / "judgements.tsv").write_text("sku%201\t0\tsku%2F2\t1\n")
    pairs = judged_pairs(tmp_path / "judgements.tsv", ["sku/2", "sku 1"])
    assert (pairs.first.tolist(), pairs.second.tolist(), pairs.same.tolist()) == ([1], [0], [True])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7\t0\t9\n", "line 1 of .*: '7 0 9', expected a judgement: query 0 document grade"),
        ("7\t0\t9\tyes\n", "expected a judgement"),
        (JUDGED + "7\t0\t4\t1\n8\t0\t5\t0\n", "2 judgements of items that are gone, first ..4.., expected items"),
        ("a.png\t0\t7\t1\n", "without a judgement of a query that is an item"),
        ("", "without a judgement"),
    ],
)
def test_judgements_that_make_no_pair_are_refused(tmp_path, text, message):
    (tmp_path / "judgements.tsv").write_text(text)
    with pytest.raises(ValueError, match=message):
        judged_pairs(tmp_path / "judgements.tsv", [7, 8, 9])
