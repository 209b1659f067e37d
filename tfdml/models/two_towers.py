"""Two networks with one embedding space: queries through the first, a gallery through the second."""

from typing import Any

import keras

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.shared_layers import fresh_inputs, named_network, require_whole_layers, shared_layers, sharing


@serializable
class TwoTowers(EmbeddingModel):
    """Two networks in one `EmbeddingModel`: sketches and photos, questions and products, faces and drawings of faces.

    Its input is a pair `(queries, gallery)`, its output both embeddings, `(batch, 2, dim)`; losses take the pairing
    `tfdml.pairs.two_towers`. The towers may have separate weights, whole layers in common, or all of them: pass one
    model twice. `.keras` files keep what is shared. `towers` are the networks to evaluate and to export.

    See also: `PairModel`, whose two branches end in a score.

    Example:

        >>> sketch, photo = keras.Input((2,)), keras.Input((3,))
        >>> networks = [keras.Model(x, keras.layers.Dense(1, kernel_initializer="ones")(x)) for x in (sketch, photo)]
        >>> model = tfdml.models.TwoTowers(*networks)
        >>> np.asarray(model((np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]])))).tolist()
        [[[3.0], [12.0]]]

    Args:
        query, gallery: functional Keras models of one output `(batch, dim)`, whose layers become layers of this model.

    Raises:
        ValueError: models that are not functional, outputs of another shape or two dims, or weights shared inside
            layers that are not.
    """

    def __init__(self, query: keras.Model, gallery: keras.Model, *, name: str | None = None) -> None:
        query = named_network(query, "query", form=" (batch, dim)")
        gallery = named_network(gallery, "gallery", form=" (batch, dim)")
        dims = query.output.shape[1], gallery.output.shape[1]
        expected = "the same dimension. End both with a layer of the same size"
        require(dims[0] == dims[1], f"towers of dimensions {dims[0]} and {dims[1]}", expected)
        require_whole_layers(query, gallery)
        inputs = fresh_inputs(query), fresh_inputs(gallery)
        outputs = keras.ops.stack([query(inputs[0]), gallery(inputs[1])], axis=1)
        super().__init__(inputs=inputs, outputs=outputs, name=name)

    @property
    def towers(self) -> tuple[keras.Model, keras.Model]:
        """The networks of the queries and of the gallery, each from its input to `(batch, dim)`."""
        return self.get_layer("query"), self.get_layer("gallery")

    def get_config(self) -> dict[str, Any]:
        """Both networks, the names of the layers that they share, and the numbers of frozen layers and of LoRA."""
        query, gallery = self.towers
        towers = {tower.name: keras.saving.serialize_keras_object(tower) for tower in (query, gallery)}
        shared = [layer.name for layer in shared_layers(query, gallery)]
        return {"name": self.name, **towers, "shared": shared, **self._tuning_config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "TwoTowers":
        """The model of a config, with the same layers shared."""
        query = keras.saving.deserialize_keras_object(config["query"], custom_objects)
        gallery = keras.saving.deserialize_keras_object(config["gallery"], custom_objects)
        options = {name: value for name, value in config.items() if name != "shared"}
        gallery = sharing(query, gallery, config["shared"])
        return super().from_config({**options, "query": query, "gallery": gallery}, custom_objects)
