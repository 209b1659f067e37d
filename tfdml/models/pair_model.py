"""A model of pairs: two inputs, one score."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.shared_layers import (
    fresh_inputs,
    is_functional,
    named_network,
    require_whole_layers,
    shared_layers,
    sharing,
)

_BRANCHES = ("branch", "first", "second")


@serializable
class PairModel(EmbeddingModel):
    """Two inputs, one score: decision layers over one branch for both inputs, over two branches, or over the inputs.

    Siamese, one branch with shared weights:       PairModel(decision, branch)        o = D(f(a), f(b))
    Pseudo-siamese, two branches:                  PairModel(decision, (one, other))  o = D(f(a), g(b))
    2-channel, one network on both inputs:         PairModel(network)                 o = D(a, b)

    The decision network takes the outputs of the branches, or the inputs themselves, concatenated on their last axis,
    the channels; or as two inputs, if it has two. It ends in one number, large for a pair that matches.

    The input of the model is a pair `(a, b)`, its output the scores in float32, `(batch,)`. Losses are
    `tfdml.losses.PairHingeLoss` and `PairLogisticLoss`, with labels 1 and -1.

    Also called: siamese network with a decision (metric) network, MatchNet, cross-encoder, siamese re-ranker.

    See also: `TwoTowers`, whose two networks end in one embedding space.

    Example:

        >>> x = keras.Input((2,))
        >>> branch = keras.Model(x, keras.layers.Dense(1, kernel_initializer="ones")(x))
        >>> decision = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
        >>> model = tfdml.models.PairModel(decision, branch)
        >>> a, b = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
        >>> np.asarray(model((a, b))).tolist()  # (1 + 2) + (3 + 4)
        [10.0]

    Args:
        decision: a functional Keras model of one output `(batch, 1)`, or `(batch, ..., 1)` for maps of scores, and of
            one or two inputs. With branches, also a `keras.Sequential` that is not built yet.
        branches: the network of both inputs, or a pair; functional models of one output, or None. All layers join this
            model.

    Raises:
        ValueError: a decision that does not fit the branches; an odd number of channels; weights shared inside layers
            that are not.

    Source: Zagoruyko, Komodakis, Learning to Compare Image Patches via Convolutional Neural Networks, CVPR 2015.
    """

    def __init__(
        self,
        decision: keras.Model,
        branches: keras.Model | Sequence[keras.Model] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        branches = _branches(branches)
        inputs, features = _inputs_and_features(decision, branches)
        decision = _decision(decision, features)
        features = features if len(decision.inputs) == 2 else [ops.concatenate(features, axis=-1)]
        scores = ops.squeeze(ops.cast(decision(_one_or_more(features)), "float32"), axis=-1)
        super().__init__(inputs=inputs, outputs=scores, name=name)

    @property
    def branches(self) -> tuple[keras.Model, ...]:
        """The networks of the first and of the second input, the same one if it is shared; none in 2-channel."""
        branches = [layer for layer in self.layers if layer.name in _BRANCHES]
        return (*branches, *branches) if len(branches) == 1 else tuple(branches)

    @property
    def decision(self) -> keras.Model:
        """The network from the outputs of the branches, or from both inputs, to `(batch, 1)`."""
        return self.get_layer("decision")

    def get_config(self) -> dict[str, Any]:
        """The networks, the names of the layers that the branches share, and the numbers of frozen layers and LoRA."""
        branches = [layer for layer in self.layers if layer.name in _BRANCHES]
        shared = [layer.name for layer in shared_layers(*branches)] if len(branches) == 2 else []
        networks = {
            "decision": keras.saving.serialize_keras_object(self.decision),
            "branches": [keras.saving.serialize_keras_object(branch) for branch in branches],
        }
        return {"name": self.name, **networks, "shared": shared, **self._tuning_config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "PairModel":
        """The model of a config, with the same layers shared."""
        decision = keras.saving.deserialize_keras_object(config["decision"], custom_objects)
        branches = [keras.saving.deserialize_keras_object(branch, custom_objects) for branch in config["branches"]]
        if len(branches) == 2:
            branches[1] = sharing(branches[0], branches[1], config["shared"])
        options = {name: value for name, value in config.items() if name != "shared"}
        networks = {"decision": decision, "branches": _one_or_more(branches) if branches else None}
        return super().from_config({**options, **networks}, custom_objects)


def _branches(branches):
    if branches is None:
        return []
    branches = list(branches) if isinstance(branches, Sequence) else [branches]
    require(len(branches) in (1, 2), f"{len(branches)} branches", "one network for both inputs, or a pair of networks")
    if len(branches) == 1 or branches[0] is branches[1]:
        return [named_network(branches[0], "branch")]
    first, second = (named_network(branch, name) for branch, name in zip(branches, ("first", "second"), strict=True))
    require_whole_layers(first, second, name="branches")
    return [first, second]


def _inputs_and_features(decision, branches):
    """The inputs of the model, and what its decision is made of."""
    if not branches:
        inputs = _halves(decision)
        return inputs, list(inputs)
    first, second = branches if len(branches) == 2 else 2 * branches
    inputs = fresh_inputs(first, "a"), fresh_inputs(second, "b")
    return inputs, [first(inputs[0]), second(inputs[1])]


def _halves(decision):
    require(is_functional(decision), f"decision={decision!r} without branches", "a functional Keras model")
    if len(decision.inputs) == 2:
        return tuple(
            keras.Input(batch_shape=x.shape, dtype=x.dtype, name=name)
            for x, name in zip(decision.inputs, "ab", strict=True)
        )
    shape = tuple(decision.inputs[0].shape)
    expected = "(batch, ..., 2 channels) for both inputs. With branches, pass them: PairModel(decision, branches)"
    require(bool(shape[-1]) and shape[-1] % 2 == 0, f"a network of the input {shape} without branches", expected)
    half = (*shape[:-1], shape[-1] // 2)
    return tuple(keras.Input(batch_shape=half, dtype=decision.inputs[0].dtype, name=name) for name in "ab")


def _decision(decision, features):
    """The decision network, built for these outputs of the branches and checked."""
    shapes = [tuple(x.shape) for x in features]
    if isinstance(decision, keras.Sequential) and not decision.built:
        _require_joinable(shapes)
        decision.build((*shapes[0][:-1], shapes[0][-1] + shapes[1][-1]))
    decision = named_network(decision, "decision")
    require(decision.output.shape[-1] == 1, f"a decision of the output {tuple(decision.output.shape)}", "(batch, 1)")
    _require_inputs([tuple(x.shape) for x in decision.inputs], shapes)
    return decision


def _require_joinable(shapes):
    one, other = shapes
    same = len(one) == len(other) and _fit(one[:-1], other[:-1])
    expected = "the same shape up to the last axis. Or pass a decision of two inputs"
    require(same, f"branches of outputs {one} and {other}", expected)


def _require_inputs(received, shapes):
    """Raise a ValueError unless a decision with inputs of these shapes takes features of the others."""
    if len(received) == 1:
        _require_joinable(shapes)
        shapes = [(*shapes[0][:-1], shapes[0][-1] + shapes[1][-1])]
    fits = len(received) == len(shapes) and all(
        len(one) == len(other) and _fit(one, other) for one, other in zip(received, shapes, strict=False)
    )
    expected = f"{', '.join(map(str, shapes))}: one input for both concatenated on the last axis, or two"
    require(fits, f"a decision of the inputs {', '.join(map(str, received))}", expected)


def _fit(one, other):
    return all(None in sizes or sizes[0] == sizes[1] for sizes in zip(one, other, strict=True))


def _one_or_more(items):
    return items[0] if len(items) == 1 else items
