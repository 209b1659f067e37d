"""The map of features that a network pools."""

import keras
from keras import layers

from tfdml._core.checks import require


def feature_map(model: keras.Model) -> keras.Model:
    """The part of a model up to the map of features that it pools: a vector for each place of an image.

    Example:

        >>> inputs = keras.Input((8, 8, 3))
        >>> model = keras.Model(inputs, tfdml.models.plain_cnn(inputs, dim=16, widths=(4, 6)))
        >>> tfdml.networks.feature_map(model).output_shape
        (None, 2, 2, 6)

    Args:
        model: a functional model of images and one output `(batch, dim)`.

    Returns:
        A model of the same layers and images, with the output `(batch, height, width, channels)`.

    Raises:
        ValueError: a model without one map of features behind which all maps are pooled.
    """
    return parts_of(model)[0]


def parts_of(model: keras.Model) -> tuple[keras.Model, keras.Model]:
    """The model up to its last map, and from there to the vector before its normalization."""
    output = model.outputs[0]
    while isinstance(output._keras_history.operation, layers.UnitNormalization):
        (output,) = _inputs_of(output)
    require(len(output.shape) == 2, f"a model with an output of shape {output.shape}", "(batch, dim)")
    return _parts_before(output, model)


def _parts_before(output, model):
    """The parts of a model before and behind the last map on the way to one of its tensors, also inside of layers."""
    ends, tensors = {}, [output]
    while tensors:
        tensor = tensors.pop()
        earlier = _inputs_of(tensor)
        is_of_maps = isinstance(tensor._keras_history.operation, keras.Model) and any(
            len(x.shape) == 4 for x in earlier
        )
        if len(tensor.shape) == 4 or is_of_maps:
            ends[id(tensor)] = tensor
        else:
            tensors += earlier
    require(len(ends) == 1, f"a model with {len(ends)} maps of features before its output", "one that it pools")
    (end,) = ends.values()
    behind = keras.Model(end, output)
    if len(end.shape) == 4:
        return keras.Model(model.inputs, end), behind
    inner = end._keras_history.operation
    to_map, to_end = _parts_before(inner.outputs[0], inner)
    behind_map = keras.Model(to_end.inputs[0], behind(to_end.outputs[0]))
    return keras.Model(model.inputs, to_map(_inputs_of(end))), behind_map


def _inputs_of(tensor):
    """The tensors from which a layer computed a tensor; none for an input."""
    layer, number, _ = tensor._keras_history
    return layer._inbound_nodes[number].input_tensors
