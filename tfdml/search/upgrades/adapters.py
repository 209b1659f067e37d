"""Adapters: maps from the embeddings of an old model to those of a new one, learned on pairs of both."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import as_vectors, require, require_metric, require_positive, require_whole
from tfdml._core.checksums import as_fingerprint, stated_model
from tfdml._core.stored import parsed_json, read_arrays
from tfdml.search.blocks import slices
from tfdml.search.scores import l2_normalize
from tfdml.typing import FilePath

_ROWS = 65_536  # rows that are mapped at the same time


@dataclass(frozen=True, eq=False, kw_only=True)
class Adapter:
    """A map from the embeddings of an old model to the space of a new one; see `LinearAdapter` and `MLPAdapter`.

    Attributes:
        metric: metric of the indexes that it upgrades. For "cosine", embeddings are normalized before and after.
        old_model, new_model: fingerprints of both models; None where they were not stated.
        projection: `(old_dim, new_dim)` float32.
        offset: `(new_dim,)` float32.
    """

    kind: ClassVar[str]

    metric: str
    old_model: str | None
    new_model: str | None
    projection: np.ndarray
    offset: np.ndarray

    @property
    def old_dim(self) -> int:
        """Dimension of the embeddings of the old model."""
        return self.projection.shape[0]

    @property
    def new_dim(self) -> int:
        """Dimension of the embeddings of the new model."""
        return self.projection.shape[1]

    def __call__(self, embeddings: npt.ArrayLike) -> np.ndarray:
        """Embeddings of the old model in the space of the new one.

        Args:
            embeddings: `(n, old_dim)` floats.

        Returns:
            `(n, new_dim)` float32; of length 1 for "cosine".
        """
        x = as_vectors(embeddings, "embeddings")
        require(x.shape[1] == self.old_dim, f"embeddings of dim {x.shape[1]}", f"{self.old_dim}, as of the old model")
        results = np.empty((len(x), self.new_dim), np.float32)
        for rows in slices(len(x), _ROWS):
            results[rows] = _as_compared(self._mapped(_as_compared(x[rows], self.metric)), self.metric)
        return results

    def save(self, path: FilePath) -> None:
        """Write the adapter and both fingerprints to a file that `load` reads, atomically.

        Args:
            path: name that ends in `.npz`; an earlier file is replaced.
        """
        require(Path(path).suffix == ".npz", f"path={str(path)!r}", "a name that ends in .npz")
        arrays: Any = {name: value for name, value in self._entries() if isinstance(value, np.ndarray)}
        texts = {name: value for name, value in self._entries() if name not in arrays}
        with atomic_write(path) as new:
            np.savez(new, **arrays, settings=np.array(json.dumps({"kind": self.kind, **texts})))

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read an adapter of this class that `save` wrote.

        Example:

            >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
            >>> adapter = tfdml.search.LinearAdapter.learn(x, x[:, ::-1], orthogonal=True)
            >>> adapter.save("adapter.npz")
            >>> tfdml.search.LinearAdapter.load("adapter.npz")([[0.6, 0.8]]).astype(float).round(4).tolist()
            [[0.8, 0.6]]

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: a file of another class, another file, or a damaged one.
        """
        path = Path(path).expanduser()
        try:
            entries: dict[str, Any] = dict(read_arrays(path))
            settings = parsed_json(str(entries.pop("settings")), path.name)
            kind = settings.pop("kind")
            require(kind == cls.kind, f"an adapter of the kind {kind!r}", repr(cls.kind))
            adapter = cls(**settings, **entries)
            require_metric(adapter.metric)
            require(np.isfinite(adapter(np.ones((1, adapter.old_dim)))).all(), "numbers that are not finite", "others")
        except FileNotFoundError:
            raise
        except Exception as error:  # Each damage fails in its own way.
            received = f"Received path={str(path)!r}, which cannot be read ({error})"
            raise ValueError(f"{received}, expected an adapter as it was saved. Learn it again.") from error
        return adapter

    def _entries(self) -> Iterator[tuple[str, Any]]:
        return ((field.name, getattr(self, field.name)) for field in fields(self))

    def _mapped(self, x):
        return x @ self.projection + self.offset


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearAdapter(Adapter):
    """A linear map from the embeddings of an old model to those of a new one: `x projection + offset`.

    Learned in closed form on embeddings of the same examples by both models. By ridge regression, with the covariance
    C = mean (x - m)(x - m)^T and D = mean (x - m)(y - n)^T of old embeddings x of mean m and new ones y of mean n,

        projection = (C + ridge (tr C / old_dim) I)^-1 D,  offset = n - m projection

    With `orthogonal`, the rotation (and reflection) nearest to the new embeddings, U V^T of the singular value
    decomposition of sum x y^T (orthogonal Procrustes): between spaces of one dimension it keeps all similarities of the
    old embeddings.

    Also called: embedding alignment, feature transformation for backward compatibility.

    See also: `upgrade` to apply it to an index.

    Example:

        >>> old = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, -0.6]])
        >>> new = old[:, ::-1] * [1.0, -1.0]  # turned by a right angle
        >>> adapter = tfdml.search.LinearAdapter.learn(old, new, orthogonal=True)
        >>> adapter([[0.8, 0.6]]).astype(float).round(4).tolist()
        [[0.6, -0.8]]

    Source: Schönemann, A Generalized Solution of the Orthogonal Procrustes Problem, Psychometrika 1966. Maps between
    models: Wang et al., Unified Representation Learning for Cross Model Compatibility, BMVC 2020; Hu et al., Learning
    Backward Compatible Embeddings, KDD 2022.
    """

    kind: ClassVar[str] = "linear"

    @classmethod
    def learn(
        cls,
        old: npt.ArrayLike,
        new: npt.ArrayLike,
        *,
        metric: str = "cosine",
        ridge: float = 1e-3,
        orthogonal: bool = False,
        old_model: Any = None,
        new_model: Any = None,
    ) -> Self:
        """The adapter of pairs of embeddings: of classes that are not searched later.

        Args:
            old: `(n, old_dim)` floats, embeddings of the old model; several times as many rows as columns.
            new: `(n, new_dim)` floats, embeddings of the new model of the same examples, row by row.
            metric: "cosine", "dot" or "euclidean", as of the indexes that are upgraded.
            ridge: weight of the ridge, as a share of the mean variance of the old embeddings; above 0.
            orthogonal: a rotation in place of ridge regression; for "euclidean" with a shift.
            old_model, new_model: both models: Keras models, models of `tfdml.export.load`, results of
                `tfdml.models.read_embeddings` or fingerprints; None: the ones that the embeddings know.
        """
        models = {"old_model": stated_model(old_model, old), "new_model": stated_model(new_model, new)}
        x, y = _as_pairs(old, new, metric)
        require_positive(ridge=ridge)
        projection, offset = _rotation(x, y, metric) if orthogonal else _ridge(x, y, ridge)
        models = {name: as_fingerprint(model) for name, model in models.items()}
        return cls(metric=metric, **models, projection=projection, offset=offset)


@dataclass(frozen=True, eq=False, kw_only=True)
class MLPAdapter(Adapter):
    """A small network from the embeddings of an old model to those of a new one: a linear map and one hidden layer.

        x projection + offset + max(0, x hidden + hidden_offset) output

    It begins as the `LinearAdapter` of the same pairs, and is trained by Keras to the least squared distance from the
    new embeddings, normalized for "cosine". NumPy alone applies it.

    Example:

        >>> old = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [0.8, -0.6]])
        >>> new = np.abs(old)  # no linear map of old
        >>> adapter = tfdml.search.MLPAdapter.learn(old, new, units=8, epochs=1)
        >>> adapter(old).shape, adapter.hidden.shape
        ((4, 2), (2, 8))

    Attributes:
        hidden: `(old_dim, units)` float32.
        hidden_offset: `(units,)` float32.
        output: `(units, new_dim)` float32.

    Source: Ramanujan et al., Forward Compatible Training for Large-Scale Embedding Retrieval Systems, CVPR 2022, whose
    transformation takes side information, too.
    """

    kind: ClassVar[str] = "mlp"

    hidden: np.ndarray
    hidden_offset: np.ndarray
    output: np.ndarray

    @classmethod
    def learn(
        cls,
        old: npt.ArrayLike,
        new: npt.ArrayLike,
        *,
        metric: str = "cosine",
        ridge: float = 1e-3,
        units: int = 512,
        epochs: int = 20,
        batch_size: int = 256,
        learning_rate: float = 1e-3,
        seed: int = 0,
        old_model: Any = None,
        new_model: Any = None,
    ) -> Self:
        """The adapter of pairs of embeddings: of classes that are not searched later.

        Args:
            old, new, metric, ridge, old_model, new_model: as for `LinearAdapter.learn`.
            units: number of hidden units.
            epochs: number of passes over the pairs.
            batch_size: number of pairs of a step, or all of them if there are fewer.
            learning_rate: of Adam at the start; it falls to 0 by a cosine.
            seed: seed of the first weights and of the order of the pairs.
        """
        for name, value in {"units": units, "epochs": epochs, "batch_size": batch_size}.items():
            require_whole(name, value, 1)
        require_positive(learning_rate=learning_rate)
        models = {"old_model": old_model, "new_model": new_model}
        linear = LinearAdapter.learn(old, new, metric=metric, ridge=ridge, **models)
        x, y = _as_pairs(old, new, metric)
        network = _network(linear, units, seed)
        _fit(network, x, y, epochs=epochs, batch_size=min(batch_size, len(x)), learning_rate=learning_rate, seed=seed)
        projection, offset = network.get_layer("linear").get_weights()
        hidden, hidden_offset = network.get_layer("hidden").get_weights()
        (output,) = network.get_layer("output").get_weights()
        return cls(
            metric=metric,
            old_model=linear.old_model,
            new_model=linear.new_model,
            projection=projection,
            offset=offset,
            hidden=hidden,
            hidden_offset=hidden_offset,
            output=output,
        )

    def _mapped(self, x):
        return super()._mapped(x) + np.maximum(x @ self.hidden + self.hidden_offset, 0) @ self.output


def _as_pairs(old, new, metric):
    """Old and new embeddings as they are compared: `(n, old_dim)` and `(n, new_dim)` float32."""
    require_metric(metric)
    x, y = as_vectors(old, "old embeddings"), as_vectors(new, "new embeddings")
    received = f"{len(x)} old and {len(y)} new embeddings"
    require(len(x) == len(y) > 1, received, "embeddings of the same examples by both models, at least two")
    return _as_compared(x, metric), _as_compared(y, metric)


def _as_compared(vectors, metric):
    return l2_normalize(vectors) if metric == "cosine" else vectors


def _ridge(x, y, ridge):
    x_mean, y_mean = (vectors.mean(axis=0, dtype=np.float64) for vectors in (x, y))
    covariance, cross = _products(x, x_mean, x, x_mean) / len(x), _products(x, x_mean, y, y_mean) / len(x)
    variance = np.trace(covariance) / len(covariance)
    require(variance > 0, "old embeddings that are all the same", "embeddings that differ")
    projection = np.linalg.solve(covariance + ridge * variance * np.eye(len(covariance)), cross)
    return projection.astype(np.float32), (y_mean - x_mean @ projection).astype(np.float32)


def _rotation(x, y, metric):
    """Projection and offset of orthogonal Procrustes; only distances allow an offset."""
    is_shifted = metric == "euclidean"
    x_mean, y_mean = (is_shifted * vectors.mean(axis=0, dtype=np.float64) for vectors in (x, y))
    left, _, right = np.linalg.svd(_products(x, x_mean, y, y_mean), full_matrices=False)
    projection = left @ right
    return projection.astype(np.float32), (y_mean - x_mean @ projection).astype(np.float32)


def _products(x, x_mean, y, y_mean):
    """Sum of the outer products of centered rows, `(x_dim, y_dim)` float64, by blocks of rows."""
    return sum((x[rows] - x_mean).T @ (y[rows] - y_mean) for rows in slices(len(x), _ROWS))


def _network(linear, units, seed):
    import keras

    inputs = keras.Input((linear.old_dim,))
    initializer = keras.initializers.GlorotUniform(seed)
    hidden = keras.layers.Dense(units, "relu", kernel_initializer=initializer, name="hidden")(inputs)
    residual = keras.layers.Dense(linear.new_dim, use_bias=False, kernel_initializer="zeros", name="output")(hidden)
    layer = keras.layers.Dense(linear.new_dim, name="linear")
    outputs = keras.layers.Add()([layer(inputs), residual])
    layer.set_weights([linear.projection, linear.offset])
    return keras.Model(inputs, keras.layers.UnitNormalization()(outputs) if linear.metric == "cosine" else outputs)


def _fit(network, x, y, *, epochs, batch_size, learning_rate, seed):
    import keras

    steps = len(x) // batch_size
    schedule = keras.optimizers.schedules.CosineDecay(learning_rate, epochs * steps)
    network.compile(keras.optimizers.Adam(schedule), loss="mse")
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(x))
        for rows in slices(steps * batch_size, batch_size):
            network.train_on_batch(x[order[rows]], y[order[rows]])
