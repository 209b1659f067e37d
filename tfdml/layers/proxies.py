"""Learned references of the classes."""

import functools
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import as_ids, as_whole, require
from tfdml._core.serialization import serializable
from tfdml.layers.base import References
from tfdml.pairs.class_values import index_of, require_among
from tfdml.pairs.pairings import checked, compare


@serializable
class Proxies(References):
    """Learned references, `per_class` vectors for each of the classes: a pairing of any loss.

    A function `(labels, embeddings, match=None) -> Pairs` of every row of a batch against every proxy. `EmbeddingModel`
    builds the proxies at `compile`, other code at the first call, outside of functions that JAX compiles. Losses over
    cosine similarities normalize them.

    With `num_sampled_classes`, the references of a batch are the proxies of its own classes and of a uniform random
    sample of all classes: a partial softmax, whose time and memory do not grow with the number of classes.

    See also: `FixedReferences` for references that are not learned, `Memory` for recent batches.

    Example: two rows against the proxies of three classes.

        >>> proxies = tfdml.layers.Proxies(classes=3, initializer="ones")
        >>> loss = tfdml.losses.NTXentLoss(pairing=proxies)  # EmbeddingModel trains them
        >>> pairs = proxies(np.array([0, 2]), np.array([[1.0, 0.0], [1.0, 1.0]], "float32"))
        >>> ops.convert_to_numpy(pairs.positive)
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)

    Args:
        classes: number of classes, whose labels are 0 to classes - 1; or any class ids, in any order, with repetitions.
            Later labels outside of them are a ValueError; a compiled function cannot raise, and its loss is NaN.
        per_class: number of proxies for each class; class `ids[k]` has the rows from k * per_class on.
        initializer: a Keras initializer of `(classes * per_class, dim)` weights; None for normal random numbers with
            variance 1 / dim, so that norms are about 1.
        seed: seed of the default initializer, and of the samples.
        num_sampled_classes: number of random classes in addition to the classes of the batch, below `classes`; None for
            all classes. There are `per_class` references per row and per sampled class; a second one of a class has no
            pairs. Excludes `match`.

    Attributes:
        classes: the number of classes.
        ids: `(classes,)` int64, their ids in ascending order.
        vectors: the variable `(classes * per_class, dim)`; None before the layer is built.

    Source: Movshovitz-Attias, Toshev, Leung, Ioffe, Singh, No Fuss Distance Metric Learning using Proxies, ICCV 2017.
    Samples: An et al., Killing Two Birds with One Stone: Efficient and Robust Training of Face Recognition CNNs by
    Partial FC, CVPR 2022. There, the classes of the batch are part of the sample; here they come on top of it.
    """

    saved_arguments = ("per_class", "seed", "num_sampled_classes")

    def __init__(
        self,
        classes: int | ArrayLike,
        *,
        per_class: int = 1,
        initializer: str | keras.initializers.Initializer | None = None,
        seed: int | None = None,
        num_sampled_classes: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.ids = _ids_of(classes)
        self.classes = len(self.ids)
        per_class = as_whole("per_class", per_class, 1)
        require(
            initializer is None or seed is None or num_sampled_classes is not None,
            f"seed={seed} and an initializer",
            "one of them: seed the initializer",
        )
        if num_sampled_classes is not None:
            num_sampled_classes = as_whole("num_sampled_classes", num_sampled_classes, 1, self.classes - 1)
        self.per_class, self.seed, self.num_sampled_classes = per_class, seed, num_sampled_classes
        if num_sampled_classes is not None:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.initializer = None if initializer is None else keras.initializers.get(initializer)

    def build(self, labels_shape: Any, embeddings_shape: Any) -> None:
        """Make the proxies for embeddings of shape `(batch, dim)`."""
        normal = keras.initializers.VarianceScaling(mode="fan_out", distribution="untruncated_normal", seed=self.seed)
        self.vectors = self.add_weight(
            shape=(self.classes * self.per_class, embeddings_shape[-1]),
            initializer=self.initializer or normal,
            dtype="float32",
            name="vectors",
        )

    def _comparison(self, labels, embeddings, match):
        """A batch with the proxies; `match` compares labels with class ids."""
        embeddings = ops.convert_to_tensor(embeddings)
        if self.num_sampled_classes is not None:
            received = f"num_sampled_classes={self.num_sampled_classes} and a match"
            require(match is None, received, "one of them: a sample holds equal class ids")
            return self._nan_outside(self._with_a_sample(labels, embeddings))
        comparison = compare(labels, embeddings, self.labels, _for_embeddings(embeddings, self.vectors), match)
        return comparison if match is not None else self._nan_outside(comparison)

    def _with_a_sample(self, labels, embeddings):
        """A batch with the proxies of its own classes and of sampled ones, each class once."""
        labels, embeddings = checked(labels, embeddings)
        batch_classes, sampled = self._class_index(labels)[0], self._sample()
        classes = _repeat(ops.concatenate([batch_classes, sampled]), self.per_class)
        rows = self.per_class * classes + ops.arange(ops.shape(classes)[0], dtype="int32") % self.per_class
        is_repeated = ops.concatenate([_repeated(batch_classes), ops.any(sampled[:, None] == batch_classes, axis=1)])
        ids = ops.take(ops.convert_to_tensor(self.labels), rows)
        proxies = _for_embeddings(embeddings, ops.take(self.vectors, rows, axis=0))
        is_new = ops.logical_not(_repeat(is_repeated, self.per_class))[None]
        return compare(labels, embeddings, ids, proxies)._replace(allowed=lambda _: is_new)

    def _sample(self):
        """Indices of different classes: one of each of `num_sampled_classes` ranges, shifted by one random offset."""
        bounds = np.arange(self.num_sampled_classes + 1) * self.classes // self.num_sampled_classes
        sizes = np.diff(bounds, append=bounds[-1] + self.classes)  # the last draw, from all classes, is the offset
        u = keras.random.uniform((self.num_sampled_classes + 1,), dtype="float32", seed=self.seed_generator)
        draws = ops.minimum(ops.cast(ops.multiply(u, sizes.astype("float32")), "int32"), (sizes - 1).astype("int32"))
        return (ops.convert_to_tensor(bounds[:-1], "int32") + draws[:-1] + draws[-1]) % self.classes

    @property
    def labels(self) -> np.ndarray:
        """The class id of each proxy, `(classes * per_class,)`."""
        ids = self.ids.astype("int32") if np.abs(self.ids).max() <= np.iinfo("int32").max else self.ids
        return np.repeat(ids, self.per_class)

    def _nan_outside(self, comparison):
        """The same comparison, NaN for anchors of other classes; outside compiled functions it raises an error."""
        labels, anchors = comparison.anchor_labels, comparison.anchors
        _, is_class = self._class_index(labels)
        require_among(labels, self.ids, functools.partial(_raise_for_unknown, self.ids))
        zero_or_nan = ops.cast(ops.where(is_class, 0.0, float("nan")), anchors.dtype)
        return comparison._replace(anchors=anchors + zero_or_nan[:, None])

    def _class_index(self, labels):
        """The index of each label in `ids`, int32, and whether it is one of them."""
        if not self._are_numbers:
            return index_of(labels, self.ids)
        is_class = ops.logical_and(labels >= 0, ops.less(labels, np.array(self.classes, "int32")))
        return ops.cast(ops.where(is_class, labels, 0), "int32"), is_class

    @property
    def _are_numbers(self):
        """Whether the ids are 0 to classes - 1."""
        return self.ids[0] == 0 and self.ids[-1] == self.classes - 1

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        initializer = self.initializer and keras.initializers.serialize(self.initializer)
        classes = self.classes if self._are_numbers else self.ids.tolist()
        return {**super().get_config(), "classes": classes, "initializer": initializer}


def _ids_of(classes):
    """The ids of a number of classes, or of class ids, in ascending order."""
    if np.ndim(classes) > 0:
        ids = np.unique(as_ids(classes, "classes"))
        require(len(ids) > 0, "classes without an id", "one class or more")
        return ids.astype("int64")
    expected = "the number of classes, or their ids. Pass proxies as pairing=, in place of classes="
    require(hasattr(classes, "__int__"), f"classes={classes!r}", expected)
    return np.arange(as_whole("classes", classes, 1))


def _for_embeddings(embeddings, vectors):
    """Vectors as a tensor: float64 beside embeddings in float64, else float32."""
    is_double = keras.backend.standardize_dtype(embeddings.dtype) == "float64"
    return ops.cast(vectors, "float64" if is_double else "float32")


def _repeat(x, times):
    """Each entry of a vector so many times; `ops.repeat` has no shape without values on PyTorch."""
    return ops.reshape(ops.tile(x[:, None], (1, times)), (-1,))


def _repeated(ids):
    """Whether each id occurred in an earlier row."""
    rows = ops.arange(ops.shape(ids)[0])
    return ops.any(ops.logical_and(ids[:, None] == ids, rows[:, None] > rows), axis=1)


def _raise_for_unknown(ids, label):
    raise ValueError(
        f"Received label {label} for the proxies of {len(ids)} classes, expected one of their ids, which are from "
        f"{ids[0]} to {ids[-1]}. Pass the labels of the whole training set, classes=labels."
    )
