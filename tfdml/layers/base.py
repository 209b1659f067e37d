"""Base classes of the layers that a loss holds: its learned weights and its state."""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self

import keras
import numpy as np

from tfdml._core.checks import require, require_declared
from tfdml.pairs import Pairs
from tfdml.pairs.base import Match, Tensor
from tfdml.pairs.comparison import Comparison
from tfdml.pairs.pairings import usable


class LossLayer(keras.layers.Layer):
    """A layer that ignores the dtype policy and is built on construction.

    A layer whose weights depend on the dimension of the embeddings sets `built` to False and has
    `build(labels_shape, embeddings_shape)`; `EmbeddingModel.compile` calls it. `get_config` saves `saved_arguments`.
    """

    saved_arguments: ClassVar[tuple[str, ...]] = ()
    in_blocks = True  # see `tfdml.pairs.base.in_blocks`

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """A layer with the declared options."""
        require_declared(cls.__init__, arguments, options)
        return super().__new__(cls, *arguments, **options)

    def __init__(self, **options: Any):
        super().__init__(**{"dtype": "float32", "autocast": False, **options})
        self.built = True

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """The result of `call`, without a look into `Pairs`: Keras accepts tensors only, blocks hold other values."""
        if any(isinstance(argument, Pairs) for argument in arguments):
            return self.call(*arguments, **options)
        return super().__call__(*arguments, **options)

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Update the state from one training batch: `EmbeddingModel` calls it once per step, after the loss."""

    def add_state(self, name: str, shape: Sequence[int], dtype: str) -> keras.Variable:
        """A variable of zeros. Each replica writes the rows of all replicas, so files may hold any replica's copy."""
        options = {"initializer": "zeros", "trainable": False, "aggregation": "only_first_replica"}
        return self.add_weight(name=name, shape=shape, dtype=dtype, **options)

    def get_build_config(self) -> dict[str, Any] | None:
        """None: the layer is built on construction."""
        return None

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        arguments = {name: getattr(self, name) for name in self.saved_arguments}
        return {**super().get_config(), **arguments}


class References(LossLayer):
    """Base class of references that are a pairing of any loss; built for the dimension of the embeddings.

    A subclass has `build(labels_shape, embeddings_shape)` to make the variable `vectors` `(references, dim)`, and
    `_comparison(labels, embeddings, match)`.
    """

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.vectors: Any = None
        self.built = False

    def __call__(self, labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Pairs:
        """Build the references if necessary, and return the `Pairs` of a batch against them."""
        labels, embeddings = self._built_for(labels, embeddings)
        return self.call(labels, embeddings, match)

    def call(self, labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Pairs:
        """The `Pairs` of a batch against the built references; a subclass may have its own, for batches as a whole."""
        return self._comparison(labels, embeddings, match).pairs()

    def comparison(self, labels: Tensor, embeddings: Tensor, match: Match | None = None) -> Comparison | None:
        """The comparison of a batch with the built references; None for a subclass with its own `call`."""
        labels, embeddings = self._built_for(labels, embeddings)
        return self._comparison(labels, embeddings, match) if type(self).call is References.call else None

    def _built_for(self, labels, embeddings):
        """Build the references, and return labels and embeddings that they compare with."""
        labels, embeddings = usable(labels, embeddings)
        if not self.built:
            self.build(np.shape(labels), np.shape(embeddings))
        dim, received = self.vectors.shape[1], tuple(np.shape(embeddings))
        require(
            received[-1] == dim,
            f"embeddings of shape {received} for {type(self).__name__} of dimension {dim}",
            f"embeddings of dimension {dim}: make a new layer for a network of another dimension",
        )
        return labels, embeddings

    def get_build_config(self) -> dict[str, Any] | None:
        """The dimension of the embeddings, or None before the layer is built."""
        return {"dim": self.vectors.shape[1]} if self.built else None

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build the layer for embeddings of the saved dimension."""
        if config:
            self.build((None,), (None, config["dim"]))


class Seeded(LossLayer):
    """A layer with its own random state; `EmbeddingModel` saves it; none if its settings draw nothing."""

    def __init__(self, *, seed: int | None = None, draws: bool = True, **options: Any):
        super().__init__(**options)
        self.seed = seed
        if draws:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def uniform(self, shape: Sequence[int], dtype: str) -> Tensor:
        """The next random numbers in [0, 1) of this layer's stream."""
        return keras.random.uniform(shape, dtype=dtype, seed=self.seed_generator)

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments."""
        return {**super().get_config(), "seed": self.seed}


@contextlib.contextmanager
def unchanged(layers: Iterable[keras.layers.Layer]) -> Iterator[None]:
    """Restore the state of a loss's layers after the block: seeds, memories; also compiled, and on replicas."""
    variables = [variable for layer in layers for variable in layer.non_trainable_variables]
    values = [keras.ops.copy(variable) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def require_owner(loss):
    """Raise a ValueError if a Keras model uses a loss with variables and does not track them."""
    layers = [layer for layer in loss.layers if layer.variables]
    model = _calling_model() if layers else None
    if model is not None and not all(layer in model._flatten_layers() for layer in layers):
        raise ValueError(
            f"Received a loss that holds {', '.join(layer.name for layer in layers)} in a plain "
            f"{type(model).__name__}, which would neither train nor save these layers. Build the model as "
            "tfdml.models.EmbeddingModel(inputs, outputs)."
        )


def _calling_model():
    """The Keras model whose `compute_loss` is on the call stack, or None: Keras gives a loss no way to its model."""
    frame = sys._getframe()
    while frame is not None:
        caller = frame.f_locals.get("self") if frame.f_code.co_name == "compute_loss" else None
        if isinstance(caller, keras.Model):
            return caller
        frame = frame.f_back
    return None
