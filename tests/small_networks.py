"""Networks that stand in for large ones."""

import functools

import keras


def without_download(build):
    """A network of keras.applications of one convolution, whose "imagenet" weights are random."""

    @functools.wraps(build)
    def network(*, include_top, weights, input_shape):
        images = keras.Input(input_shape)
        model = keras.Model(images, keras.layers.Conv2D(4, 7, strides=7, activation="relu")(images))
        if weights not in (None, "imagenet"):
            model.load_weights(weights)
        return model

    return network


def write_sentence_encoder(folder, words):
    """Write a BERT of random weights that knows some words, in the form of KerasHub."""
    import keras_hub

    keras.utils.set_random_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words.split()]
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 8}
    keras_hub.models.BertBackbone(vocabulary_size=len(pieces), **sizes).save_to_preset(str(folder))
    keras_hub.models.BertTokenizer(vocabulary=pieces).save_to_preset(str(folder))
    return folder
