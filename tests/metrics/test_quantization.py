"""Embeddings in fewer bytes, and retrieval on them."""

import numpy as np
import pytest

from tfdml import metrics

RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(6), 5)
X = (RNG.standard_normal((6, 11))[LABELS] + 1.2 * RNG.standard_normal((30, 11))).astype("float32")


def hamming(codes):
    """Number of different bits of each pair of codes."""
    return np.array(
        [[sum(bin(int(a ^ b)).count("1") for a, b in zip(i, j, strict=True)) for j in codes] for i in codes]
    )


def test_codes_of_a_row_are_whole_numbers_that_reach_127():
    codes = metrics.int8_codes(X)
    assert codes.dtype == np.int8
    assert (np.abs(codes).max(axis=1) == 127).all()
    scale = np.abs(X).max(axis=1, keepdims=True) / 127
    np.testing.assert_allclose(codes * scale, X, atol=scale.max() / 2 * 1.001)
    np.testing.assert_array_equal(metrics.int8_codes(3.0 * X), codes)


def test_codes_by_dimension_are_those_of_a_calibration_and_clipped_beyond_it():
    scales = np.abs(X).max(axis=0) / 127
    np.testing.assert_allclose(metrics.int8_codes(X, scales) * scales, X, atol=scales.max() / 2 * 1.001)
    assert metrics.int8_codes(10 * X, scales).min() == -127
    assert not metrics.int8_codes(0 * X).any()


def expected_recall_at_1(distances):
    """The share of nearest items that are of the query's class, where several may be nearest."""
    found = []
    for query, row in enumerate(distances.astype(float)):
        row = np.where(np.arange(len(row)) == query, np.inf, row)
        found.append((LABELS[row == row.min()] == LABELS[query]).mean())
    return np.mean(found)


def test_retrieval_of_bits_ranks_by_hamming_distance_and_takes_the_mean_over_ties():
    for dim in (3, 8, 11):
        (row,) = metrics.quantized_retrieval(X, LABELS, dims=(dim,), precisions=("binary",), k=1)
        expected = expected_recall_at_1(hamming(np.packbits(X[:, :dim] > 0, axis=1)))
        np.testing.assert_allclose(row["recall@1"], expected, rtol=1e-9)
        assert (row["dim"], row["precision"], row["bytes"]) == (dim, "binary", -(-dim // 8))


def test_rows_are_the_metrics_of_the_first_columns_at_each_precision():
    rows = metrics.quantized_retrieval(X, LABELS, dims=(4, 11), precisions=("float32", "int8"), k=(1, 4))
    assert [(row["dim"], row["bytes"]) for row in rows] == [(4, 16), (4, 4), (11, 44), (11, 11)]
    for row in rows:
        codes = X[:, : row["dim"]] if row["precision"] == "float32" else metrics.int8_codes(X[:, : row["dim"]])
        expected = metrics.retrieval(codes, LABELS, k=(1, 4), ties="expected")
        assert {name: row[name] for name in expected} == expected


def test_a_gallery_is_quantized_as_the_queries_are():
    options = {"gallery": X[10:], "gallery_labels": LABELS[10:], "k": 1}
    for row in metrics.quantized_retrieval(X[:20], LABELS[:20], **options):
        assert row["queries"] == 10  # the classes of the first ten rows are not in the gallery
        assert 0 < row["recall@1"] <= 1


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"precisions=\('int4',\), expected some of float32, int8, binary"):
        metrics.quantized_retrieval(X, LABELS, precisions=("int4",))
    with pytest.raises(ValueError, match="dims=12, expected a whole number from 1 to 11"):
        metrics.quantized_retrieval(X, LABELS, dims=(12,))
    with pytest.raises(ValueError, match=r"scales of shape \(3,\), expected \(11,\)"):
        metrics.int8_codes(X, np.ones(3))
