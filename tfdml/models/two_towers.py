"""Two networks with one embedding space: queries through the first, a gallery through the second."""

from typing import Any, Literal, Self

import keras

from tfdml._core.checks import require
from tfdml._core.serialization import serializable
from tfdml.embedding.hub_tokenizers import hub_tokenizer
from tfdml.embedding.tokenizer import Tokenizer
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.shared_layers import fresh_inputs, named_network, require_whole_layers, shared_layers, sharing
from tfdml.networks.hub import image_text_preset


@serializable
class TwoTowers(EmbeddingModel):
    """Two networks in one `EmbeddingModel`: sketches and photos, questions and products, faces and drawings of faces.

    Its input is a pair `(queries, gallery)`, its output both embeddings, `(batch, 2, dim)`; losses take the pairing
    `tfdml.pairs.two_towers`. The towers may have separate weights, whole layers in common, or all of them: pass one
    model twice. `.keras` files keep what is shared. `towers` are the networks to evaluate and to export.

    Towers of images and of texts have a `tokenizer`, which `from_preset` brings with them: `TextModel(model)` turns
    texts into vectors, and `tfdml embed`, `search --text` and `serve` take the `.keras` file of the model.

    See also: `PairModel`, whose two branches end in a score.

    Example:

        >>> sketch, photo = keras.Input((2,)), keras.Input((3,))
        >>> networks = [keras.Model(x, keras.layers.Dense(1, kernel_initializer="ones")(x)) for x in (sketch, photo)]
        >>> model = tfdml.models.TwoTowers(*networks)
        >>> np.asarray(model((np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]])))).tolist()
        [[[3.0], [12.0]]]

    Args:
        query, gallery: functional Keras models of one output `(batch, dim)`, whose layers become layers of this model.
        tokenizer: from texts to the token numbers that the gallery takes, `(batch, length)`; None for other galleries.
        scale, bias: numbers for which `scale * s + bias` is the logit of a pair of cosine s, as they were trained with
            the towers: with them, `CLIPLoss(temperature=1 / scale)` or `SigmoidLoss` goes on. None: unknown.
        image_fit: how an image is brought to the shape of the queries, as in `tfdml.datasets.Preprocessing`.

    Raises:
        ValueError: models that are not functional, outputs of another shape or two dims, weights shared inside
            layers that are not, or a gallery that does not take the numbers of the tokenizer.
    """

    def __init__(
        self,
        query: keras.Model,
        gallery: keras.Model,
        *,
        tokenizer: Tokenizer | None = None,
        scale: float | None = None,
        bias: float | None = None,
        image_fit: Literal["stretch", "pad", "crop"] = "stretch",
        name: str | None = None,
    ) -> None:
        query = named_network(query, "query", form=" (batch, dim)")
        gallery = named_network(gallery, "gallery", form=" (batch, dim)")
        dims = query.output.shape[1], gallery.output.shape[1]
        expected = "the same dimension. End both with a layer of the same size"
        require(dims[0] == dims[1], f"towers of dimensions {dims[0]} and {dims[1]}", expected)
        require_whole_layers(query, gallery)
        if tokenizer is not None:
            expected = f"token numbers (batch, {tokenizer.length}), as of the tokenizer"
            require(gallery.input_shape == (None, tokenizer.length), f"a gallery of {gallery.input_shape}", expected)
        inputs = fresh_inputs(query), fresh_inputs(gallery)
        outputs = keras.ops.stack([query(inputs[0]), gallery(inputs[1])], axis=1)
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.tokenizer, self.scale, self.bias, self.image_fit = tokenizer, scale, bias, image_fit
        self.towers[0].image_fit = image_fit

    @classmethod
    def from_preset(cls, preset: str) -> Self:
        """The encoders of images and of texts of a preset of KerasHub: CLIP, SigLIP and SigLIP 2, MetaCLIP 2.

        The first tower turns pixels in [0, 255] into unit vectors, the second one the token numbers of
        `model.tokenizer(texts)`. Case, end mark and padding of the tokenizer, scale and offset of the pixels are as the
        preset was trained. Needs `pip install tfdml[hub]`.

        See also: `TextModel`, from texts to vectors; `from_backbone` for the features of a preset of images.

        Args:
            preset: name of a preset, such as "siglip2_base_patch16_224", "hf://...", or the path of its folder.

        Raises:
            ImportError: KerasHub is not installed.
            ValueError: an unknown preset, one without texts, or one with the tokenizer of another model.
            OSError: files that cannot be downloaded.
        """
        sides = image_text_preset(preset)
        length = sides.texts.input_shape[1]
        tokenizer = hub_tokenizer(sides.tokenizer, length)
        options: dict[str, Any] = {"scale": sides.scale, "bias": sides.bias, "image_fit": sides.image_fit}
        return cls(sides.images, sides.texts, tokenizer=tokenizer, **options)

    @property
    def towers(self) -> tuple[keras.Model, keras.Model]:
        """The networks of the queries and of the gallery, each from its input to `(batch, dim)`."""
        return self.get_layer("query"), self.get_layer("gallery")

    def get_config(self) -> dict[str, Any]:
        """Both networks, the names of the layers that they share, and the numbers of frozen layers and of LoRA."""
        query, gallery = self.towers
        towers = {tower.name: keras.saving.serialize_keras_object(tower) for tower in (query, gallery)}
        shared = [layer.name for layer in shared_layers(query, gallery)]
        numbers = {} if self.scale is None else {"scale": self.scale, "bias": self.bias}
        texts: dict[str, Any] = {} if self.tokenizer is None else {"tokenizer": self.tokenizer.get_config()}
        texts |= {} if self.image_fit == "stretch" else {"image_fit": self.image_fit}
        return {"name": self.name, **towers, "shared": shared, **texts, **numbers, **self._tuning_config()}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "TwoTowers":
        """The model of a config, with the same layers shared."""
        query = keras.saving.deserialize_keras_object(config["query"], custom_objects)
        gallery = keras.saving.deserialize_keras_object(config["gallery"], custom_objects)
        options = {name: value for name, value in config.items() if name != "shared"}
        gallery = sharing(query, gallery, config["shared"])
        if "tokenizer" in options:
            options["tokenizer"] = Tokenizer.from_config(config["tokenizer"])
        return super().from_config({**options, "query": query, "gallery": gallery}, custom_objects)
