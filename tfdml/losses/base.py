"""Base classes of the losses."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypedDict, get_args

import keras
from keras import ops

from tfdml._core.backends import custom_gradient
from tfdml._core.checks import require, require_function_or_none, require_miner_or_none
from tfdml._core.serialization import serializable
from tfdml.layers.base import require_owner
from tfdml.pairs import Pairs, all_pairs
from tfdml.pairs.base import Match, Miner, Tensor
from tfdml.pairs.pairings import usable

PAIR_OPTIONS = ("pairing", "miner", "importance", "match")


class LossOptions(TypedDict, total=False):
    """Options of every Keras loss, see `keras.losses.Loss`."""

    name: str | None
    reduction: str | None
    dtype: Any


class WeightOptions(LossOptions, total=False):
    """Options of every loss over pairs but the pairing, see `PairLoss`."""

    miner: Miner | None
    importance: Miner | None
    match: Match | None


class PairOptions(WeightOptions, total=False):
    """Options of every loss over pairs, see `PairLoss`."""

    pairing: Callable[..., Pairs]


class FunctionLoss(keras.losses.Loss):
    """Base class: a Keras loss over a function with settings, which never casts labels to a float type.

    Keras casts `y_true` to the dtype of the loss, which would merge large class ids. A subclass defines
    `call(y_true, y_pred)`, which returns the values to reduce.

    Args:
        function: computes the values.
        settings: keyword arguments of `function`, saved in the config as options of the loss.
        name, reduction, dtype: as in `keras.losses.Loss`.
    """

    def __init__(
        self, function: Callable[..., Tensor], settings: dict[str, Any], *, name: str | None, reduction: Any, dtype: Any
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.function = function
        self.settings = settings
        self._reduce = _Reduce(name=self.name, reduction=reduction, dtype=dtype)

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The reduced loss of labels and predictions."""
        return self.reduce(self.call(y_true, y_pred), sample_weight)

    def reduce(self, values: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Values after the Keras reduction, with optional weights of the anchors."""
        return self._reduce(values, values, sample_weight)

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Update the state of the loss from one training batch; most losses have none.

        `EmbeddingModel` calls it once per training step, after the loss and before the `update` of its layers.

        Args:
            labels, embeddings: as the loss received them.
        """

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments, serialized."""
        return {**_serialized(self.settings), **super().get_config(), "dtype": self.dtype}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The loss that `get_config` describes."""
        return cls(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})


class _Reduce(keras.losses.Loss):
    """Apply only the Keras reduction: `call` returns `y_pred`, and labels are not cast."""

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return y_pred


def _serialized(values):
    return {name: keras.saving.serialize_keras_object(value) for name, value in values.items()}


@serializable
class PairLoss(FunctionLoss):
    """A Keras loss over a pure function of `Pairs`.

    `loss(labels, embeddings)` takes three steps and passes one value per anchor to the Keras reduction:

    * `pair(labels, embeddings)`: the batch becomes `Pairs`;
    * `reweight(pairs)`: the miner and then the importance weights change the weights of the pairs;
    * `on_pairs(pairs)`: the function is evaluated on the reweighted pairs.

    Also called: generic pair loss.

    See also: the other losses of `tfdml.losses`, each a `PairLoss` of its own function. `WeightedSumLoss`, their sums.

    Example:

        >>> from keras import ops
        >>> def hinge(pairs, *, margin):
        ...     d = tfdml.pairs.euclidean(pairs)
        ...     return ops.sum(pairs.positive * d + pairs.negative * ops.relu(margin - d), axis=1)
        >>> loss = tfdml.losses.PairLoss(hinge, margin=2.0)
        >>> labels, embeddings = [0, 0, 1], [[0.0], [0.5], [1.5]]
        >>> round(float(loss(labels, embeddings)), 4)
        1.3333

    Args:
        function: `function(pairs, **settings)` that returns `(anchors,)`. Register it with Keras to save the loss.
        pairing: how a batch becomes `Pairs`: `all_pairs`, `consecutive_pairs`, `even_against_odd`, or your own function
            `(labels, embeddings)`, with a third argument `match` if that option is used.
        miner: a function `Pairs -> Pairs` that selects or reweights pairs; None for all pairs.
        importance: a function `Pairs -> Pairs` that corrects for how the batch was drawn, applied after the miner:
            `sampler.importance(labels)`; None for no correction.
        match: which labels match: a function of two arrays of labels, `(A, ...)` and `(R, ...)`, that returns
            a boolean matrix `(A, R)`, for multi-label or hierarchical relevance. None for equal class ids.
        name: name of the loss; None for the name of the function.
        reduction, dtype: as in `keras.losses.Loss`.
        **settings: keyword arguments of `function`.

    Raises:
        TypeError: an option that neither the loss nor its function has.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.__signature__ = _with_shared_options(inspect.signature(cls.__init__))

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        pairing: Callable[..., Pairs] = all_pairs,
        miner: Miner | None = None,
        importance: Miner | None = None,
        match: Match | None = None,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
        **settings: Any,
    ) -> None:
        require(callable(function), f"function={function!r}", "a function of Pairs")
        _require_known_options(type(self), function, settings)
        super().__init__(function, settings, name=name or _name_of(function), reduction=reduction, dtype=dtype)
        require(callable(pairing), f"pairing={pairing!r}", "a function, such as tfdml.pairs.all_pairs")
        require_miner_or_none("miner", miner)
        require_miner_or_none("importance", importance)
        require_function_or_none("match", match)
        self.pairing = pairing
        self.miner = miner
        self.importance = importance
        self.match = match

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The reduced loss of integer labels `(batch,)` and embeddings `(batch, dim)`."""
        require_owner(self)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per anchor, `(anchors,)`, of labels and embeddings."""
        return self.on_pairs(self.pair(y_true, y_pred))

    def pair(self, labels: Tensor, embeddings: Tensor) -> Pairs:
        """The `Pairs` of a batch, before any reweighting.

        Raises:
            ValueError: masked entries, or class ids that the backend cannot represent.
        """
        labels, embeddings = usable(labels, embeddings)
        matching = {} if self.match is None else {"match": self.match}
        return self.pairing(labels, embeddings, **matching)

    def reweight(self, pairs: Pairs) -> Pairs:
        """The pairs after the miner and then the importance weights."""
        return _reweighted("importance", self.importance, _reweighted("miner", self.miner, pairs))

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """One value per anchor, `(anchors,)`, of any `Pairs`, such as a batch against a memory or a gallery.

        The pairs are reweighted first.
        """
        return self.values(self.reweight(pairs))

    def values(self, pairs: Pairs) -> Tensor:
        """One value per anchor, `(anchors,)`, of pairs with their current weights, not reweighted."""
        values = self.function(pairs, **self.settings)
        _require_one_per_anchor(values, pairs, self.function)
        return propagate_non_finite(values, pairs)

    @property
    def layers(self) -> list[keras.Layer]:
        """The Keras layers that this loss holds; `tfdml.models.EmbeddingModel` trains and saves them.

        A loss that holds layers with variables raises ValueError in a plain `keras.Model`.
        """
        options = [*vars(self).values(), *self.settings.values()]
        return [option for option in options if isinstance(option, keras.Layer)]

    def get_config(self) -> dict[str, Any]:
        """The constructor arguments, serialized."""
        options = {option: getattr(self, option) for option in PAIR_OPTIONS}
        if "function" in inspect.signature(type(self)).parameters:
            options["function"] = self.function
        return {**_serialized(options), **super().get_config()}


def _with_shared_options(signature):
    """The signature of a constructor without self and with its `**options` spelled out.

    Losses take the shared options as `**options: Unpack[PairOptions]` instead of repeating them. `help` and the error
    messages read them from this signature. Names come from the annotation, defaults from `PairLoss`.
    """
    parameters = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
    ]
    if len(parameters) < len(signature.parameters):
        annotation = list(signature.parameters.values())[-1].annotation
        (options,) = get_args(annotation) or (PairOptions,)
        shared = inspect.signature(PairLoss.__init__).parameters
        parameters += [
            shared[name] for name in shared if name in options.__annotations__ and name not in signature.parameters
        ]
    return signature.replace(parameters=parameters[1:])


def _require_known_options(loss_class, function, settings):
    """Raise a TypeError for settings that neither the class nor the function has."""
    options = inspect.signature(loss_class).parameters.values()
    arguments = list(inspect.signature(function).parameters.values())[1:]
    if not any(argument.kind is argument.VAR_KEYWORD for argument in arguments):
        names = [option.name for option in (*options, *arguments) if option.kind is not option.VAR_KEYWORD]
        require_known_options(loss_class.__name__, settings, list(dict.fromkeys(names)))


def require_known_options(name: str, received: Mapping[str, object], names: Sequence[str]) -> None:
    """Raise a TypeError for options that are not known."""
    unknown = [f"{option}={value!r}" for option, value in received.items() if option not in names]
    if unknown:
        raise TypeError(f"Received {', '.join(unknown)} for {name}, expected options among {', '.join(names)}.")


def _name_of(function):
    return getattr(function, "__name__", type(function).__name__)


def _require_one_per_anchor(values, pairs, function):
    """Raise the ValueError of a function that does not return one value per anchor."""
    expected, received = tuple(pairs.positive.shape[:1]), getattr(values, "shape", None)
    received = None if received is None else tuple(received)
    is_vector = received is not None and len(received) == 1
    require(
        is_vector and (None in (*received, *expected) or tuple(received) == expected),
        f"values of shape {received} from {_name_of(function)}",
        f"{expected}, one value per anchor: sum over its references",
    )


def propagate_non_finite(values: Tensor, pairs: Pairs) -> Tensor:
    """Make values and gradients NaN wherever an anchor, a reference or a value is not finite.

    The loss and the gradient of the anchors are then either both finite or both NaN. On some backends max(NaN, 0) is
    0, which would hide a diverged model. Embeddings whose squared distances may overflow count as not finite.
    """
    anchors = ops.cast(pairs.anchors, values.dtype)
    zeros = 0.0 * (16.0 * ops.sum(ops.square(anchors), axis=-1) + values)
    if not pairs.is_self:
        references = ops.cast(pairs.references, values.dtype)
        zeros = zeros + 0.0 * (16.0 * ops.sum(ops.sum(ops.square(references), axis=-1, keepdims=True)))
    return _plus(ops.stop_gradient(zeros), values, anchors)


@custom_gradient
def _plus(zeros, values, anchors):
    """Values plus zeros, each 0 or NaN. The gradients with respect to values and anchors are NaN where zeros are."""

    def grad(upstream):
        upstream = upstream + zeros
        return None, upstream, ops.broadcast_to((upstream * zeros)[:, None], ops.shape(anchors))

    return values + zeros, grad


def _reweighted(option, function, pairs):
    """The pairs returned by a miner or importance weights, checked to have the same shape."""
    if function is None:
        return pairs
    reweighted = function(pairs)
    for weights in ("positive", "negative"):
        expected, received = getattr(pairs, weights).shape, getattr(getattr(reweighted, weights, None), "shape", None)
        if received is None or tuple(received) != tuple(expected):
            raise ValueError(
                f"Received {weights} weights of shape {received} from {option}={function!r}, expected "
                f"{tuple(expected)}. It takes Pairs and returns Pairs of the same shape: "
                "pairs.scale(positive=..., negative=...)."
            )
    return reweighted
