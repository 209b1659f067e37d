"""Re-identification against loops over its definition, a transcription of re-ranking, and examples done by hand."""

import itertools
import math

import numpy as np
import pytest

from tests.metrics.retrieval.test_retrieval import QUERY, arc
from tests.oracles import number_of, rankings_of, scores_of, unit
from tfdml.metrics import KReciprocalReranking, random_gallery, reidentification

# A query of person 1 in camera 1, and a gallery by falling similarity.
PERSONS = [1, 2, -1, 1, 0, 1, 3]
CAMERAS = [1, 1, 2, 2, 3, 3, 1]


def street(people=20, cameras=4, images=160, seed=0, dim=8):
    """Embeddings that depend on the person and, as much, on the camera."""
    rng = np.random.default_rng(seed)
    labels, seen = rng.integers(0, people, images), rng.integers(0, cameras, images)
    centers = rng.normal(size=(people, dim))[labels] + rng.normal(size=(cameras, dim))[seen]
    return (centers + 0.8 * rng.normal(size=(images, dim))).astype(np.float32), labels, seen


def split(x, labels, cameras, queries=60):
    """Queries, and the rest as the gallery."""
    names = ("gallery", "gallery_labels", "gallery_cameras")
    parts = (x, labels, cameras)
    return [part[:queries] for part in parts], dict(zip(names, [part[queries:] for part in parts], strict=True))


def values_by_loops(d, labels, cameras, gallery_labels, gallery_cameras, ks=(1, 5, 10)):
    """cmc@k and average precision of every query, None without a match; distances `(queries, items)`."""
    found = []
    for i in range(len(labels)):
        is_person = np.equal(gallery_labels, labels[i])
        (ranking,) = rankings_of(-d[i], np.flatnonzero(~(is_person & np.equal(gallery_cameras, cameras[i]))))
        values = {name: number_of(name, is_person[ranking]) for name in [*(f"cmc@{k}" for k in ks), "map"]}
        found.append(values if is_person[ranking].any() else None)
    return found


def means(found):
    used = [one for one in found if one is not None]
    numbers = {name: sum(one[name] for one in used) / len(used) for name in used[0]}
    return {**numbers, "queries": len(used), "skipped": len(found) - len(used)}


def reranked_by_loops(x, queries, k1, k2, weight):
    """The formulas of k-reciprocal encoding, as printed, with squared distances over the largest one of a row."""
    x = unit(x)
    n = len(x)
    d = np.array([[np.sum((a - b) ** 2) for b in x] for a in x])
    d /= d.max(axis=1, keepdims=True)
    order = [sorted(range(n), key=lambda j, i=i: (d[i, j], j)) for i in range(n)]

    def mutual(i, k):
        return {j for j in order[i][: k + 1] if i in order[j][: k + 1]}

    v = np.zeros((n, n))
    for i in range(n):
        near = mutual(i, k1)
        more = [mutual(j, round(k1 / 2)) for j in near]
        for j in near.union(*[other for other in more if len(other & near) > 2 / 3 * len(other)]):
            v[i, j] = math.exp(-d[i, j])
        v[i] /= v[i].sum()
    v = np.array([sum(v[j] for j in order[i][:k2]) / k2 for i in range(n)])
    found = np.zeros((queries, n - queries))
    for i, j in itertools.product(range(queries), range(queries, n)):
        jaccard = 1 - np.minimum(v[i], v[j]).sum() / np.maximum(v[i], v[j]).sum()
        found[i, j - queries] = (1 - weight) * jaccard + weight * d[i, j]
    return found


# Examples by hand.


@pytest.mark.parametrize(("options", "mean"), [({}, (1 / 2 + 2 / 4) / 2), ({"junk": (-1, 0)}, (1 / 2 + 2 / 3) / 2)])
def test_the_same_person_in_the_same_camera_and_junk_are_removed_and_distractors_stay(options, mean):
    items = {"gallery": arc(len(PERSONS)), "gallery_labels": PERSONS, "gallery_cameras": CAMERAS}
    got = reidentification(QUERY, [1], [1], **items, **options, k=(1, 2, 5))
    # Left are persons 2, 1, 0 (a distractor), 1, 3; the first is in the query's own camera.
    assert got == {"cmc@1": 0, "cmc@2": 1, "cmc@5": 1, "map": mean, "queries": 1, "skipped": 0}


# Loops from the definition.


def test_queries_and_gallery_agree_with_the_definition():
    (x, labels, cameras), items = split(*street())
    d = 1 - scores_of(x, items["gallery"])
    expected = values_by_loops(d, labels, cameras, items["gallery_labels"], items["gallery_cameras"])
    got = reidentification(x, labels, cameras, **items)
    assert got == pytest.approx(means(expected))
    values = reidentification(x, labels, cameras, **items, per_query=True)
    np.testing.assert_allclose(values["map"], [np.nan if one is None else one["map"] for one in expected])


def test_without_a_gallery_every_image_is_a_query():
    x, labels, cameras = street(people=40)
    d = 1 - scores_of(x, x)
    expected = means(values_by_loops(d, labels, cameras, labels, cameras))
    assert reidentification(x, labels, cameras) == pytest.approx(expected)
    assert expected["skipped"] > 0  # persons in one camera only


# Laws.


def test_junk_is_as_if_it_were_not_there_but_its_queries_are_counted():
    x, labels, cameras = street()
    junk = np.isin(labels, (3, 7))
    expected = reidentification(x[~junk], labels[~junk], cameras[~junk])
    got = reidentification(x, labels, cameras, junk=(3, 7))
    assert got == {**expected, "skipped": expected["skipped"] + junk.sum()}
    values = reidentification(x, labels, cameras, junk=(3, 7), per_query=True)["map"]
    assert np.isnan(values[junk]).all()


def test_names_of_persons_and_cameras_do_not_matter():
    x, labels, cameras = street()
    expected = reidentification(x, labels, cameras)
    assert reidentification(x, 2**62 + labels, -5 - cameras) == expected


# Re-ranking.


@pytest.mark.parametrize("settings", [(20, 6, 0.3), (5, 1, 0.0), (3, 4, 0.8)], ids=str)
def test_reranked_distances_are_those_of_the_formulas(settings):
    x, _, _ = street(images=70, seed=2)
    k1, k2, weight = settings
    expected = reranked_by_loops(x, 20, k1, k2, weight)
    for max_bytes in (2**29, 2**20):
        blocks = list(KReciprocalReranking(k1=k1, k2=k2, weight=weight).distances(x[:20], x[20:], max_bytes=max_bytes))
        assert [block.start for block, _ in blocks] == list(range(0, 20, blocks[0][0].stop))
        np.testing.assert_allclose(np.concatenate([d for _, d in blocks]), expected, atol=1e-6)


def test_blocks_of_queries_fit_into_the_memory():
    x, _, _ = street(images=600)
    ((whole, expected),) = KReciprocalReranking().distances(x[:300], x[300:])
    blocks = list(KReciprocalReranking().distances(x[:300], x[300:], max_bytes=2**20))
    assert whole == slice(0, 300)
    assert max(d.size for _, d in blocks) * 64 <= 2**20
    np.testing.assert_array_equal(np.concatenate([d for _, d in blocks]), expected)


def test_copies_of_a_vector_beyond_k1_are_not_lost():
    x = np.concatenate([np.tile([[1.0, 0.0]], (30, 1)), street(images=20, dim=2)[0]])
    ((_, d),) = KReciprocalReranking(k1=5, k2=2).distances(x)
    assert np.isfinite(d).all()
    assert (d[25].argsort(kind="stable")[:30] < 30).all()


@pytest.mark.parametrize("alone", [True, False])
def test_reranked_numbers_are_those_of_the_reranked_distances(alone):
    x, labels, cameras = street(images=120)
    (q, q_labels, q_cameras), items = split(x, labels, cameras)
    if alone:
        ((_, d),) = KReciprocalReranking().distances(x)
        expected = means(values_by_loops(d, labels, cameras, labels, cameras))
        got = reidentification(x, labels, cameras, rerank=KReciprocalReranking())
    else:
        d = reranked_by_loops(x, 60, 20, 6, 0.3)
        expected = values_by_loops(d, q_labels, q_cameras, items["gallery_labels"], items["gallery_cameras"])
        expected = means(expected)
        got = reidentification(q, q_labels, q_cameras, **items, rerank=KReciprocalReranking())
    assert got == pytest.approx(expected)


def test_reranking_finds_persons_whose_neighbors_agree():
    x, labels, cameras = street(people=30, images=400, dim=16)
    plain, better = (reidentification(x, labels, cameras, rerank=rerank) for rerank in (None, KReciprocalReranking()))
    assert better["map"] > plain["map"]


@pytest.mark.parametrize("settings", [{"k1": 0}, {"k2": 0}, {"k1": 4, "k2": 6}, {"weight": 1.5}, {"k1": 2.0}])
def test_wrong_settings_of_reranking_are_errors(settings):
    with pytest.raises(ValueError, match=r"Received (k1|k2|weight)="):
        KReciprocalReranking(**settings)


# One random image per identity.


def test_one_random_image_per_identity_has_the_mean_over_all_galleries():
    angles, labels = np.radians([0, 40, 50, 90, 70]), np.array([0, 0, 1, 1, 2])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = []
    for gallery in itertools.product([0, 1], [2, 3], [4]):
        queries = [row for row in range(5) if row not in gallery]
        scores = scores_of(x[queries], x[list(gallery)])
        found.append(np.mean(labels[list(gallery)][scores.argmax(axis=1)] == labels[queries]))
    got = random_gallery(x, labels, k=1, repeats=64)
    assert got["cmc@1"] == pytest.approx(np.mean(found), abs=4 * np.std(found) / 8)
    assert 0 < got["cmc@1"] < 1
    assert [got[name] for name in ("queries", "gallery", "repeats")] == [2, 3, 64]


def test_map_of_one_relevant_item_is_its_inverse_rank():
    x, labels, _ = street()
    got = random_gallery(x, labels, k=(1, 5), repeats=3)
    assert got["cmc@1"] < got["map"] < got["cmc@5"]
    assert got == random_gallery(x, labels, k=(1, 5), repeats=3)
    assert got != random_gallery(x, labels, k=(1, 5), repeats=3, seed=1)


@pytest.mark.parametrize("labels", [np.zeros(9, int), np.arange(9)])
def test_a_random_gallery_needs_identities_and_queries(labels):
    with pytest.raises(ValueError, match=r"9 images of [19] identities"):
        random_gallery(np.eye(9), labels)


# Errors.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cameras": np.zeros(5, int)}, r"cameras of shape \(5,\), expected \(60,\)"),
        ({"gallery_cameras": np.zeros(5, int)}, r"gallery_cameras of shape \(5,\), expected \(100,\)"),
        ({"gallery_labels": None}, "gallery and gallery_cameras alone"),
        ({"gallery": None}, "gallery_labels and gallery_cameras alone"),
        ({"gallery": np.ones((100, 8))}, "embeddings that are all the same"),
        ({"k": 101}, "k=101"),
        ({"junk": np.arange(20)}, "none is left"),
        ({"labels": np.full(60, 99)}, "none of which has an item of its identity in another camera"),
    ],
)
@pytest.mark.parametrize("rerank", [None, KReciprocalReranking(k1=5)])
def test_wrong_arguments_are_errors(change, message, rerank):
    (x, labels, cameras), items = split(*street())
    if rerank and "gallery" in change and change["gallery"] is not None:
        change = {"gallery": np.ones((100, 8)), "embeddings": np.ones((60, 8))}
    with pytest.raises(ValueError, match=message):
        reidentification(**{"embeddings": x, "labels": labels, "cameras": cameras, **items, "rerank": rerank, **change})


def test_without_k_the_ranks_are_those_that_the_gallery_has():
    x, labels, cameras = np.random.default_rng(0).normal(size=(4, 3)), [0, 0, 1, 1], [0, 1, 0, 1]
    assert reidentification(x, labels, cameras).keys() == {"cmc@1", "map", "queries", "skipped"}
    items = {"gallery": -x[[0, 2, 1, 3, 3]], "gallery_labels": [0, 1, 2, 2, 2], "gallery_cameras": [5] * 5}
    assert "cmc@5" in reidentification(x, labels, cameras, **items)
    assert "cmc@10" in reidentification(*street())
    assert random_gallery(x, labels).keys() == {"cmc@1", "map", "queries", "gallery", "repeats"}
    with pytest.raises(ValueError, match="k=5"):
        reidentification(x, labels, cameras, k=(1, 5))


def test_reranking_has_no_dot_product_and_needs_neighbors():
    x, labels, cameras = street()
    with pytest.raises(ValueError, match="metric='dot'"):
        reidentification(x, labels, cameras, metric="dot", rerank=KReciprocalReranking())
    with pytest.raises(ValueError, match="k1=20 with 12 vectors"):
        next(KReciprocalReranking().distances(x[:12]))


def test_a_matrix_of_scores_and_its_rankings_give_what_loops_give():
    (x, labels, cameras), gallery = split(*street())
    labels[3], gallery["gallery_labels"][::7] = -1, -1
    scores = scores_of(x, gallery.pop("gallery"))
    kept = gallery["gallery_labels"] >= 0
    items = gallery["gallery_labels"][kept], gallery["gallery_cameras"][kept]
    expected = values_by_loops(-scores[:, kept], labels, cameras, *items)
    expected[3] = None
    for found in (
        reidentification(None, labels, cameras, scores=scores, **gallery),
        reidentification(None, labels, cameras, neighbors=np.argsort(-scores), **gallery),
    ):
        assert found == pytest.approx(means(expected), rel=1e-6)
    each = reidentification(None, labels, cameras, scores=scores, **gallery, per_query=True, k=5)
    assert sorted(each) == ["cmc@5", "map"]
    assert np.isnan(each["map"]).tolist() == [one is None for one in expected]


def test_equal_scores_are_in_the_order_of_the_gallery():
    gallery = {"gallery_labels": [2, 1, 1], "gallery_cameras": [1, 1, 1]}
    assert reidentification(None, [1], [0], scores=np.zeros((1, 3)), **gallery, k=(1, 2))["cmc@1"] == 0
    assert reidentification(None, [1], [0], scores=np.zeros((1, 3)), **gallery, k=(1, 2))["cmc@2"] == 1


@pytest.mark.parametrize(
    ("neighbors", "options", "message"),
    [
        ([[0, 1]], {}, r"neighbors of shape \(1, 2\) and type int64, expected whole rankings \(queries, 3\)"),
        ([[0, 1, 1]], {}, "neighbors that repeat or leave out items, expected whole rankings"),
        ([[0.0, 1.0, 2.0]], {}, "type float64, expected whole rankings"),
        ([[0, 1, 2]], {"k": 4}, "k=4, expected a whole number from 1 to 3"),
        ([[0, 1, 2]], {"scores": [[1, 2, 3]]}, "scores and neighbors, expected one of embeddings, scores, neighbors"),
        (None, {}, "none of them, expected one of"),
        ([[0, 1, 2]], {"gallery_labels": None}, "neighbors without gallery_labels"),
        ([[0, 1, 2]] * 2, {}, r"labels of shape \(1,\), expected \(2,\)"),
    ],
)
def test_wrong_rankings_are_errors(neighbors, options, message):
    arguments = {"gallery_labels": [2, 1, 1], "gallery_cameras": [1, 1, 1], **options}
    with pytest.raises(ValueError, match=message):
        reidentification(None, [1], [0], neighbors=neighbors, **arguments)
