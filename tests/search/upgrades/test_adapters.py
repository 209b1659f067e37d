"""Adapters against scikit-learn and SciPy, and indexes that are upgraded by them."""

import tracemalloc

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.stats import special_ortho_group
from sklearn.linear_model import Ridge

from tests.oracles import unit
from tfdml import search
from tfdml.search import LinearAdapter, MLPAdapter

RANDOM = np.random.default_rng(0)
OLD = RANDOM.standard_normal((300, 6)).astype("float32")
NEW = (OLD @ RANDOM.standard_normal((6, 4)) + 0.3 * RANDOM.standard_normal((300, 4)) + 1).astype("float32")
ROTATION = special_ortho_group(6, seed=1).rvs()
OLD_MODEL, NEW_MODEL = "0" * 64, "1" * 64
MODELS = {"old_model": OLD_MODEL, "new_model": NEW_MODEL}


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "dot"])
def test_the_linear_adapter_is_the_ridge_regression_of_scikit_learn(metric):
    x, y = (unit(OLD), unit(NEW)) if metric == "cosine" else (OLD, NEW)
    alpha = 0.1 * 200 * x[:200].var(axis=0).mean()
    expected = Ridge(alpha=alpha).fit(x[:200].astype(float), y[:200].astype(float)).predict(x[200:])
    adapter = LinearAdapter.learn(OLD[:200], NEW[:200], metric=metric, ridge=0.1)
    adapted = adapter(OLD[200:])
    assert adapted.dtype == np.float32
    np.testing.assert_allclose(adapted, unit(expected) if metric == "cosine" else expected, atol=1e-5)


def test_the_orthogonal_adapter_is_the_procrustes_rotation_of_scipy():
    y = OLD @ ROTATION + 0.5 * RANDOM.standard_normal(OLD.shape)
    expected, _ = orthogonal_procrustes(unit(OLD), unit(y))
    adapter = LinearAdapter.learn(OLD, y, orthogonal=True)
    np.testing.assert_allclose(adapter.projection, expected, atol=1e-5)
    assert not adapter.offset.any()
    np.testing.assert_allclose(adapter(OLD) @ adapter(OLD).T, unit(OLD) @ unit(OLD).T, atol=1e-5)


def test_a_rotated_and_shifted_space_is_found_again():
    adapter = LinearAdapter.learn(OLD, OLD @ ROTATION + 3, metric="euclidean", orthogonal=True)
    np.testing.assert_allclose(adapter(OLD), OLD @ ROTATION + 3, atol=1e-4)
    adapter = LinearAdapter.learn(OLD[:, :4], OLD[:, :4] @ special_ortho_group(4, seed=2).rvs(), orthogonal=True)
    np.testing.assert_allclose(adapter.projection @ adapter.projection.T, np.eye(4), atol=1e-5)


def test_a_rotation_to_fewer_dimensions_has_orthonormal_columns():
    adapter = LinearAdapter.learn(OLD, NEW, orthogonal=True)
    np.testing.assert_allclose(adapter.projection.T @ adapter.projection, np.eye(4), atol=1e-5)


@pytest.mark.slow
def test_the_network_begins_as_the_linear_adapter_and_learns_what_is_not_linear():
    new = np.concatenate([OLD, np.abs(OLD)], axis=1)
    linear = LinearAdapter.learn(OLD[:250], new[:250])
    options = {"units": 64, "batch_size": 50, "seed": 3}
    still = MLPAdapter.learn(OLD[:250], new[:250], epochs=1, learning_rate=1e-9, **options)
    np.testing.assert_allclose(still(OLD), linear(OLD), atol=1e-4)
    trained = MLPAdapter.learn(OLD[:250], new[:250], epochs=60, learning_rate=1e-2, **options)
    errors = [np.square(adapter(OLD[250:]) - unit(new[250:])).sum(axis=1).mean() for adapter in (linear, trained)]
    assert errors[1] < 0.5 * errors[0]
    again = MLPAdapter.learn(OLD[:250], new[:250], epochs=60, learning_rate=1e-2, **options)
    np.testing.assert_allclose(again(OLD), trained(OLD), atol=1e-5)


@pytest.mark.parametrize("kind", [LinearAdapter, MLPAdapter])
def test_an_adapter_is_saved_with_both_models(kind, tmp_path):
    options = {} if kind is LinearAdapter else {"units": 5, "epochs": 1, "batch_size": 300}
    adapter = kind.learn(OLD, NEW, metric="dot", new_model=NEW_MODEL, **options)
    adapter.save(tmp_path / "adapter.npz")
    loaded = kind.load(tmp_path / "adapter.npz")
    other = MLPAdapter if kind is LinearAdapter else LinearAdapter
    with pytest.raises(ValueError, match=f"an adapter of the kind {adapter.kind!r}, expected {other.kind!r}"):
        other.load(tmp_path / "adapter.npz")
    assert (loaded.old_model, loaded.new_model) == (None, NEW_MODEL)
    assert (loaded.metric, loaded.old_dim, loaded.new_dim) == ("dot", 6, 4)
    np.testing.assert_array_equal(loaded(OLD), adapter(OLD))


def test_other_and_damaged_files_are_no_adapters(tmp_path):
    with pytest.raises(ValueError, match=r"path=.*adapter', expected a name that ends in \.npz"):
        LinearAdapter.learn(OLD, NEW).save(tmp_path / "adapter")
    with pytest.raises(FileNotFoundError):
        LinearAdapter.load(tmp_path / "adapter.npz")
    np.savez(tmp_path / "adapter.npz", projection=NEW)
    with pytest.raises(ValueError, match=r"expected an adapter as it was saved\. Learn it again"):
        LinearAdapter.load(tmp_path / "adapter.npz")
    np.savez_compressed(tmp_path / "adapter.npz", projection=np.zeros(2**24))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"members of 134,217,.* bytes, unpacked"):
        LinearAdapter.load(tmp_path / "adapter.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (search.Exact, {}),
        (search.Scann, {"method": "partitioned", "leaves": 5, "leaves_to_search": 5, "rescore": 200}),
        (
            search.Faiss,
            {"method": "partitioned", "codes": "float32", "leaves": 5, "leaves_to_search": 5, "rescore": 200},
        ),
    ],
)
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_an_upgraded_index_is_the_index_of_the_adapted_vectors(kind, options, metric):
    ids = [f"item {row}" for row in range(300)]
    index = kind(OLD[:280], ids[:280], metric=metric, metadata={"price": np.arange(280)}, model=OLD_MODEL, **options)
    index.add(OLD[280:], ids[280:], metadata={"price": np.arange(280, 300)})
    index.remove(["item 7"])
    adapter = LinearAdapter.learn(OLD, NEW, metric=metric, **MODELS)
    upgraded = search.upgrade(index, adapter)
    rows = np.delete(np.arange(300), 7)
    expected = kind(adapter(OLD[rows]), np.array(ids)[rows], metric=metric, **options)
    assert type(upgraded) is kind
    assert upgraded.ids.tolist() == index.ids.tolist()
    assert upgraded.metadata["price"].to_pylist() == rows.tolist()
    assert (upgraded.fingerprint, upgraded.dim, index.fingerprint, index.dim) == (NEW_MODEL, 4, OLD_MODEL, 6)
    assert {name: getattr(upgraded, name) for name in options} == options
    np.testing.assert_allclose(upgraded.vectors, expected.vectors, atol=1e-5)
    neighbors, _ = upgraded.search(NEW[:9], 3, model=NEW_MODEL)
    assert (neighbors[:, 0] == expected.search(NEW[:9], 3)[0][:, 0]).all()


def test_an_adapter_of_another_model_is_taken_by_an_option():
    index = search.Exact(OLD, model=OLD_MODEL)
    adapter = LinearAdapter.learn(OLD, NEW, old_model=NEW_MODEL)
    with pytest.raises(ValueError, match=rf"an index of model {OLD_MODEL[:12]} .* {NEW_MODEL[:12]}, as of the adapter"):
        search.upgrade(index, adapter)
    assert search.upgrade(index, adapter, other_model=True).fingerprint is None
