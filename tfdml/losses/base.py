"""Base classes of the losses."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypedDict, get_args

import keras

from tfdml._core.backends import has_plain_mean, ops, uncompiled, vector_jacobian
from tfdml._core.checks import (
    require,
    require_declared,
    require_function_or_none,
    require_miner_or_none,
    require_one_of,
    require_whole,
)
from tfdml._core.serialization import serializable
from tfdml.layers.base import require_owner
from tfdml.losses.reductions import per_anchor, propagate_non_finite
from tfdml.pairs import Pairs, all_pairs
from tfdml.pairs.base import Match, Miner, Tensor, may_be_in_blocks
from tfdml.pairs.batch_reductions import BatchMean
from tfdml.pairs.chunked import Blocks, block_size, values_in_blocks, weighted_sum_in_blocks
from tfdml.pairs.comparison import Comparison
from tfdml.pairs.pairings import usable

PAIR_OPTIONS = ("pairing", "miner", "importance", "match", "anchors_per_block")


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
    anchors_per_block: int | None


class PairOptions(WeightOptions, total=False):
    """Options of every loss over pairs, see `PairLoss`."""

    pairing: Callable[..., Pairs]


class FunctionLoss(keras.losses.Loss):
    """Base class: a Keras loss over a function with settings, which never casts labels to a float type.

    Keras casts `y_true` to the dtype of the loss, which would merge large class ids. A subclass defines
    `call(y_true, y_pred)`, which returns the values to reduce. `settings`, for `function`, are saved.
    """

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """A loss whose options for one number, by their annotation, are finite numbers."""
        require_declared(cls.__init__, arguments, options)
        return super().__new__(cls)

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
        if sample_weight is None and self.reduction == "sum_over_batch_size" and has_plain_mean(values):
            return ops.mean(ops.cast(values, self.dtype))
        rows, weights = (getattr(x, "shape", None) for x in (values, sample_weight))
        if rows and weights and rows[0] is not None and weights[0] not in (None, 1, rows[0]):
            raise ValueError(
                f"Received {weights[0]} sample weights (or class weights) for {rows[0]} anchors, expected one per "
                "anchor: a pair or triplet of rows is one anchor. Train without them, or take the pairing all_pairs."
            )
        return self._reduce(values, values, sample_weight)

    def parameters(self, dim: int | None = None) -> list[Any]:
        """The learned numbers of the loss, as parameters for an optimizer of PyTorch; empty for most losses.

        Args:
            dim: dimension of the embeddings, for a loss with proxies that has not seen any.
        """
        backend = keras.backend.backend()
        expected = "torch: set KERAS_BACKEND=torch before the import"
        require(backend == "torch", f"the Keras backend {backend!r}", expected)
        for layer in self.layers:
            require(layer.built or dim is not None, "no dim for layers that are not built", "dim=, that of embeddings")
            if not layer.built:
                layer.build((None,), (None, dim))
        return [variable.value for layer in self.layers for variable in layer.trainable_variables]

    @property
    def layers(self) -> list[keras.Layer]:
        """The Keras layers that the loss holds; most losses hold none."""
        return []

    def update(self, labels: Tensor, embeddings: Tensor) -> None:
        """Update the state of the loss from one training batch, as the loss received it; most losses have none.

        `EmbeddingModel` calls it once per training step, after the loss and before the `update` of its layers.
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
    * `values(pairs)`: the function is evaluated on the reweighted pairs.

    A third argument, `sample_weight`, multiplies the values. A row of weight 0 has no value of its own, and still is a
    positive or negative of other rows. Every label is a class, also -1.

    A subclass passes a function and its settings to `__init__`, and takes the options below by `**options`. The
    function multiplies by `pairs.positive` and `pairs.negative`, the weights of the pairs, and gives 0 for an anchor
    without pairs. `class OwnLoss(PairLoss, in_blocks=True)` declares that it may take blocks of anchors: its results
    are finite, and depend on other anchors by `tfdml.pairs.batch_reductions` alone. A subclass with `values` of its own
    returns `(anchors,)` values from it.

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
        function: `function(pairs, **settings)` that returns `(anchors,)`, or a `BatchMean` of
            `tfdml.pairs.batch_reductions`. Register it with Keras to save the loss.
        pairing: how a batch becomes `Pairs`: `all_pairs`, `consecutive_pairs`, `even_against_odd`, or your own function
            `(labels, embeddings)`, with a third argument `match` if that option is used.
        miner: a function `Pairs -> Pairs` that selects or reweights pairs; None for all pairs. It has its own
            `distance`, which does not follow the distance of the loss.
        importance: a function `Pairs -> Pairs` that corrects for how the batch was drawn, applied after the miner:
            `sampler.importance(labels)`; None for no correction.
        match: which labels match: a function of two arrays of labels, `(A, ...)` and `(R, ...)`, that returns
            a boolean matrix `(A, R)`, for multi-label or hierarchical relevance. None for equal class ids.
        anchors_per_block: number of anchors that are compared with the references at a time. Value and gradient stay
            the same, in memory that grows with rows, not pairs. None: blocks are used only if the pair matrix exceeds
            64 MiB (256 MiB on accelerators) and the reference embeddings, and loss, pairing and miners declare them.
        name, reduction, dtype: as in `keras.losses.Loss`; the default name is the name of the function.
        **settings: keyword arguments of `function`.

    Raises:
        TypeError: an option that neither the loss nor its function has.
        ValueError: when called, blocks for a pairing or a function that needs the whole batch.
    """

    in_blocks = False

    def __init_subclass__(cls, *, in_blocks: bool = False, **options: Any) -> None:
        """Declare that the function of a subclass may take a batch in blocks, as `tfdml.pairs.base.in_blocks`."""
        super().__init_subclass__(**options)
        cls.in_blocks = in_blocks

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        pairing: Callable[..., Pairs] = all_pairs,
        miner: Miner | None = None,
        importance: Miner | None = None,
        match: Match | None = None,
        anchors_per_block: int | None = None,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
        **settings: Any,
    ) -> None:
        require(callable(function), f"function={function!r}", "a function of Pairs")
        _require_arguments(type(self), function, settings)
        name = name or _name_of(function).replace("<lambda>", "pair_loss")  # Keras opens a scope of this name
        super().__init__(function, settings, name=name, reduction=reduction, dtype=dtype)
        require(callable(pairing), f"pairing={pairing!r}", "a function, such as tfdml.pairs.all_pairs")
        require_miner_or_none("miner", miner)
        require_miner_or_none("importance", importance)
        require_function_or_none("match", match)
        if anchors_per_block is not None:
            require_whole("anchors_per_block", anchors_per_block, 1)
        self.anchors_per_block = anchors_per_block
        self.pairing, self.match = pairing, match
        self.miner, self.importance = miner, importance
        self.in_blocks = type(self).in_blocks and may_be_in_blocks(miner, importance, *settings.values())

    def pair(self, labels: Tensor, embeddings: Tensor) -> Pairs:
        """The `Pairs` of a batch, before any reweighting."""
        labels, embeddings = usable(labels, embeddings)
        matching = {} if self.match is None else {"match": self.match}
        return self.pairing(labels, embeddings, **matching)

    def reweight(self, pairs: Pairs) -> Pairs:
        """The pairs after the miner and then the importance weights; a NaN weight makes its anchor NaN."""
        pairs = _reweighted("importance", self.importance, _reweighted("miner", self.miner, pairs))
        is_finite = hasattr(self.pairing, "comparison") and may_be_in_blocks(self.miner, self.importance)
        return pairs if is_finite else _with_weights_in_anchors(pairs)

    def values(self, pairs: Pairs) -> Tensor:
        """One value per anchor, `(anchors,)`, of pairs with their current weights, not reweighted."""
        return per_anchor(self.undivided(pairs), pairs)

    def undivided(self, pairs: Pairs) -> Tensor | BatchMean:
        """The result of the function: the values, or a `BatchMean`, whose sums are not divided yet."""
        result = getattr(self.function, "apart", self.function)(pairs, **self.settings)
        values = result.sums if isinstance(result, BatchMean) else result
        _require_one_per_anchor(values, pairs, self.function)
        values = propagate_non_finite(values, pairs)
        return result._replace(sums=values) if isinstance(result, BatchMean) else values

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """One value per anchor, `(anchors,)`, of any `Pairs`, such as a batch against a memory, which it reweights."""
        return self.values(self.reweight(_with_weights_in_anchors(pairs)))

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The reduced loss of integer labels `(batch,)` and embeddings `(batch, dim)`."""
        require_owner(self)
        if self.reduction in (None, "none"):
            return super().__call__(y_true, y_pred, sample_weight)
        compared = self.compared(y_true, y_pred)
        if isinstance(compared, Pairs):
            return self.reduce(self.values(self.reweight(compared)), sample_weight)
        weights = self._weights_of_anchors(compared[0].comparison, sample_weight)
        sums = [ops.cast(weighted_sum_in_blocks(blocks, weights), self.dtype) for blocks in compared]
        return sum(sums) / len(sums)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One value per anchor, `(anchors,)`, of labels and embeddings."""
        compared = self.compared(y_true, y_pred)
        if isinstance(compared, Pairs):
            return self.values(self.reweight(compared))
        return sum(values_in_blocks(blocks) for blocks in compared) / len(compared)

    def compared(self, labels: Tensor, embeddings: Tensor) -> Pairs | list[Blocks]:
        """The pairs of the whole batch, or the blocks of anchors in which it is compared."""
        may_be_blocks = self.in_blocks or self.anchors_per_block is not None
        comparison = self.comparison(labels, embeddings) if may_be_blocks else None
        size = block_size(self.anchors_per_block, comparison)
        if comparison is None:
            return self.pair(labels, embeddings)
        return comparison.pairs() if size is None else self.blocks(comparison, size)

    def comparison(self, labels: Tensor, embeddings: Tensor) -> Comparison | None:
        """The comparison that `pair` weights; None for a pairing that compares a batch as a whole."""
        if not hasattr(self.pairing, "comparison"):
            return None
        return self.pairing.comparison(*usable(labels, embeddings), self.match)

    def blocks(self, comparison: Comparison, size: int) -> list[Blocks]:
        """The functions in blocks of anchors whose mean this loss is; one for most losses."""
        values = self.undivided if type(self).values is PairLoss.values else self.values
        return [Blocks(lambda pairs: values(self.reweight(pairs)), comparison, size, self.layers_of_function)]

    @property
    def layers_of_function(self) -> list[keras.Layer]:
        """The layers that are read after pairing: all but the pairing."""
        return [layer for layer in self.layers if layer is not self.pairing]

    @uncompiled
    def _weights_of_anchors(self, comparison, sample_weight):
        """The derivative of the reduced loss by the value of each anchor, `(anchors,)`."""
        zeros = ops.zeros((comparison.num_anchors,), dtype=self.dtype)
        (weights,) = vector_jacobian(lambda x: self.reduce(x, sample_weight), [zeros], ops.ones((), dtype=self.dtype))
        return weights

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


def _require_arguments(loss_class, function, settings):
    """Raise a TypeError for settings that the function does not have."""
    arguments = list(inspect.signature(function).parameters.values())[1:]
    if not any(argument.kind is argument.VAR_KEYWORD for argument in arguments):
        require_known_options(loss_class, settings, [argument.name for argument in arguments])


def require_known_options(loss_class: type, received: Mapping[str, object], names: Sequence[str] = ()) -> None:
    """Raise a TypeError for options that are neither of the class nor among the names."""
    known = dict.fromkeys([*options_of(loss_class), *names])
    unknown = [f"{option}={value!r}" for option, value in received.items() if option not in known]
    if unknown:
        raise TypeError(
            f"Received {', '.join(unknown)} for {loss_class.__name__}, expected options among {', '.join(known)}."
        )


def options_of(loss_class: type) -> list[str]:
    """Names of the options of a loss, with `**options` spelled out: `PairOptions` if it has no annotation."""
    names = []
    for parameter in inspect.signature(loss_class).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            (shared,) = get_args(parameter.annotation) or (PairOptions,)
            names += shared.__annotations__
        else:
            names.append(parameter.name)
    return names


def _with_weights_in_anchors(pairs):
    """The pairs, with an anchor of NaN where a weight of its pairs is NaN."""
    zeros = 0.0 * ops.sum(pairs.positive + pairs.negative, axis=1, keepdims=True)
    return pairs._replace(anchors=pairs.anchors + ops.cast(zeros, pairs.anchors.dtype))


def _name_of(function):
    return getattr(function, "__name__", type(function).__name__)


def _require_one_per_anchor(values, pairs, function):
    """Raise a ValueError unless the function returned one value per anchor."""
    expected, received = tuple(pairs.positive.shape[:1]), getattr(values, "shape", None)
    received = None if received is None else tuple(received)
    if received == expected:
        return
    require(
        received is not None and len(received) == 1 and None in (*received, *expected),
        f"values of shape {received} from {_name_of(function)}",
        f"{expected}, one value per anchor: sum over its references",
    )


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


class IndependentPairOptions(PairOptions, total=False):
    """Options of every loss that adds pairs up, see `PairLoss`, and `normalize`.

    The divisor of the sum over pairs: "anchor", as in the formula of the loss; "all", the number of pairs of the batch;
    or "active", the number of its pairs with a loss above 0.
    """

    normalize: str


class IndependentPairLoss(PairLoss):
    """Base class: a loss over a function that `reductions.over_pairs` made. It may be the base of a `RobustLoss`."""

    def __init__(self, function: Callable[..., Tensor], *, normalize: str = "anchor", **options: Any) -> None:
        require_one_of(("anchor", "all", "active"), normalize=normalize)
        super().__init__(function, normalize=normalize, **options)

    def pair_losses(self, pairs: Pairs) -> Tensor:
        """The loss of each pair, `(anchors, references)`, as a positive or a negative pair."""
        settings = {name: value for name, value in self.settings.items() if name != "normalize"}
        return inspect.unwrap(self.function)(pairs, **settings)
