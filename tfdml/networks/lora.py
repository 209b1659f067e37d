"""LoRA: low-rank updates of the frozen kernels of a pretrained network."""

import math
from typing import Any

import keras
from keras import layers

from tfdml._core.checks import require, require_positive, require_whole
from tfdml._core.serialization import serializable
from tfdml.networks.depth import backbone_of, inner_layers, set_own_trainable, unfreeze


class _LowRank:
    """The LoRA of a Keras layer, whose kernel and bias are frozen; files keep its factors, where Keras merges them."""

    def enable_lora(self, rank, lora_alpha=None, **initializers):
        """As in Keras, with the `lora_alpha` of the config, and with a frozen bias."""
        super().enable_lora(rank, lora_alpha=self.lora_alpha if lora_alpha is None else lora_alpha, **initializers)
        self._track_anew([self._kernel, self.bias], trainable=False)

    def save_own_variables(self, store):
        """Save kernel, bias and factors."""
        for name, variable in self._saved().items():
            store[name] = variable

    def load_own_variables(self, store):
        """Restore kernel, bias and factors."""
        saved = self._saved()
        names = sorted(store.keys())
        expected = f"the variables {', '.join(sorted(saved))}. Load weights without LoRA before add_lora"
        require(names == sorted(saved), f"weights {', '.join(names)} for layer {self.name!r} with LoRA", expected)
        for name, variable in saved.items():
            variable.assign(store[name])

    def merge(self):
        """Add the product of the factors to the kernel, and become the Keras layer without LoRA."""
        merged: dict[str, Any] = {}
        super().save_own_variables(merged)
        super().load_own_variables(merged)
        for variable in (self.lora_kernel_a, self.lora_kernel_b):
            self._untrack_variable(variable)
        self._track_anew([self._kernel, self.bias], trainable=True)
        self.lora_enabled, self.lora_rank, self.lora_alpha = False, None, None
        self.__class__ = next(kind for kind, low_rank in _LOW_RANK.items() if isinstance(self, low_rank))

    def _track_anew(self, variables, *, trainable):
        """Track variables as those that `layer.trainable = True` trains, or as those that it does not train."""
        self._tracker.unlock()
        for variable in [each for each in variables if each is not None]:
            self._untrack_variable(variable)
            variable.trainable = trainable
            self._track_variable(variable)
        self._tracker.lock()

    def _saved(self):
        variables = {"kernel": self._kernel, "bias": self.bias, "a": self.lora_kernel_a, "b": self.lora_kernel_b}
        return {name: variable for name, variable in variables.items() if variable is not None}


@serializable
class LoRADense(_LowRank, layers.Dense):
    """A dense layer with LoRA, made by `add_lora`."""


@serializable
class LoRAEinsumDense(_LowRank, layers.EinsumDense):
    """An einsum layer with LoRA, made by `add_lora`."""


@serializable
class LoRAConv2D(_LowRank, layers.Conv2D):
    """A convolution of 1 x 1 with LoRA, made by `add_lora`."""


_LOW_RANK: dict[type, type] = {
    layers.Dense: LoRADense,
    layers.EinsumDense: LoRAEinsumDense,
    layers.Conv2D: LoRAConv2D,
}


def add_lora(model: keras.Model, rank: int = 8, *, alpha: float | None = None) -> int:
    """Train low-rank updates of the kernels of a network in place of its weights (LoRA).

    `W x + (alpha / rank) B A x`, with W frozen, A `(rank, inputs)` at random and B `(outputs, rank)` zero, so that the
    network computes the same before the first step.

    Dense layers, `EinsumDense` layers and convolutions of 1 x 1 have A and B. It freezes all else in the network: other
    convolutions, biases, and batch normalization with its averages. In an `EinsumDense`, as in attention, A has all
    dimensions of the kernel but the last: each head has an A of its own.

    Call it after loading pretrained weights and before `compile`; compile a compiled model again. Under
    `tf.distribute`, call it in the scope of the strategy. Files of the model store W, A and B; networks of KerasHub
    keep them in files of an `EmbeddingModel`. `merge_lora` and exports hold `W + (alpha / rank) B A` alone.

    See also: `merge_lora` after training; `freeze` and `layerwise_decay` for other ways to tune few weights.

    Example:

        >>> model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
        >>> tfdml.networks.add_lora(model, rank=1)  # 6 weights in A, 4 in B
        10
        >>> [tuple(variable.shape) for variable in model.trainable_variables]
        [(6, 1), (1, 4)]

    Args:
        model: `add_lora` adapts the layer "backbone" of an `EmbeddingModel` of `from_backbone`; the head trains in
            full; of `TwoTowers`, the same in each tower; of any other model, all layers. It changes the model in place.
        rank, alpha: rows of A and columns of B, and scale of the update; None for `rank`, a scale of 1.

    Returns:
        The number of weights in all A and B; `model.summary()` shows it beside the frozen ones.

    Raises:
        ValueError: a rank below 1, `alpha` of 0 or less, a network that has LoRA, or no layers that it adapts.

    Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022, eq. 3.
    """
    require_whole("rank", rank, 1)
    require_positive(alpha=rank if alpha is None else alpha)
    towers = getattr(model, "towers", [model])
    inner = [layer for tower in towers for layer in inner_layers(backbone_of(tower))]
    require(not any(map(has_lora, inner)), "a model with LoRA", "one without. Merge it with merge_lora first")
    adapted = list(dict.fromkeys(filter(_is_adaptable, inner)))
    require(bool(adapted), f"model {model.name!r}", "Dense, EinsumDense or Conv2D layers of 1 x 1 to adapt")
    for tower in towers:
        unfreeze(tower)  # the head may have been trained first
    for layer in adapted:
        adapt(layer, rank, alpha)
    for layer in inner:
        if not any(map(has_lora, layer._flatten_layers())):
            layer.trainable = False
    freeze_around_lora(inner)
    return sum(math.prod(factor.shape) for layer in adapted for factor in (layer.lora_kernel_a, layer.lora_kernel_b))


def merge_lora(model: keras.Model) -> keras.Model:
    """A copy of a functional model with its updates by LoRA in its kernels, with layers of Keras alone.

    Its embeddings equal the embeddings of `model` up to rounding. The copy is uncompiled. Its merged layers are
    trainable, and `unfreeze` ends what `add_lora` has frozen.

    Example:

        >>> x = keras.Input((2,))
        >>> model = keras.Model(x, keras.layers.Dense(2, kernel_initializer="identity")(x))
        >>> tfdml.networks.add_lora(model, rank=1)
        4
        >>> for variable in model.trainable_variables:
        ...     _ = variable.assign(np.ones(variable.shape))  # in place of training: B A is all ones
        >>> merged = tfdml.networks.merge_lora(model)
        >>> np.asarray(merged.layers[-1].kernel).tolist(), type(merged.layers[-1]).__name__
        ([[2.0, 1.0], [1.0, 2.0]], 'Dense')

    Returns:
        A model of the same class; `model` itself where it has no LoRA.
    """
    if not any(map(has_lora, inner_layers(model))):
        return model
    copy = type(model).from_config(model.get_config())
    for layer, original in zip(inner_layers(copy), inner_layers(model), strict=True):
        if has_lora(original):  # configs of layers that hold other layers, as in KerasHub, do not say so
            adapt(layer, original.lora_rank, original.lora_alpha)
    for layer, original in zip(copy.layers, model.layers, strict=True):
        layer.set_weights(original.get_weights())
    inner = inner_layers(copy)
    for layer in filter(has_lora, inner):
        layer.merge()
    for layer in inner:
        set_own_trainable(layer, layer.trainable)
    return copy


def has_lora(layer: keras.layers.Layer) -> bool:
    """Whether `add_lora` has adapted this layer."""
    return isinstance(layer, _LowRank)


def adapt(layer: keras.layers.Layer, rank: int, alpha: float | None) -> None:
    """Turn a built Keras layer into its class with LoRA; nothing where it is of that class."""
    if not has_lora(layer):
        layer.__class__ = _LOW_RANK[type(layer)]
        layer.enable_lora(rank, alpha)


def freeze_around_lora(inner: list[keras.layers.Layer]) -> None:
    """Freeze the weights that a layer has beside its inner layers, if one of these has LoRA."""
    for layer in inner:
        if not has_lora(layer) and any(map(has_lora, layer._flatten_layers())):
            set_own_trainable(layer, False)


def _is_adaptable(layer):
    is_matrix = not isinstance(layer, layers.Conv2D) or (tuple(layer.kernel_size) == (1, 1) and layer.groups == 1)
    return type(layer) in _LOW_RANK and is_matrix
