"""Vectors of texts: the mean over words, heads, and files, with a BERT of random weights."""

import json

import keras
import numpy as np
import pytest

from tests.small_networks import write_sentence_encoder
from tfdml.models import SentenceEncoder, TextModel

TEXTS = ["a bird", "a red bird", "bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sentence_encoder(tmp_path_factory.mktemp("bert") / "encoder", "a red bird")


def test_a_text_is_the_mean_of_the_outputs_of_its_words_and_marks(folder):
    import keras_hub

    network = keras_hub.models.BertBackbone.from_preset(str(folder))
    expected = []
    for text in TEXTS:  # one at a time, without padding
        words = [{"a": 5, "red": 6, "bird": 7}[word] for word in text.split()]
        tokens = np.array([[2, *words, 3]])  # between the marks of the beginning and of the end
        inputs = {"token_ids": tokens, "padding_mask": np.ones_like(tokens), "segment_ids": np.zeros_like(tokens)}
        expected.append(np.asarray(network(inputs)["sequence_output"])[0].mean(axis=0))
    np.testing.assert_allclose(SentenceEncoder(folder)(TEXTS), expected, atol=1e-5)


def test_a_long_text_counts_up_to_the_62nd_piece(folder):
    encoder = SentenceEncoder(folder)
    long, other = "a " * 62 + "bird", "a " * 62 + "red red"
    np.testing.assert_array_equal(encoder([long]), encoder([other]))


def test_a_text_model_is_saved_with_its_encoder_and_the_model_of_its_images(folder, tmp_path):
    inputs = keras.Input((8,))
    model = TextModel(SentenceEncoder(folder), keras.Model(inputs, keras.layers.Dense(3)(inputs)), fingerprint="images")
    for _ in range(2):  # the second one replaces the first
        model.save(tmp_path / "text")
    loaded = TextModel.load(tmp_path / "text")
    np.testing.assert_allclose(loaded(TEXTS), model(TEXTS), atol=1e-6)
    assert (loaded(TEXTS).fingerprint, loaded.fingerprint) == ("images", "images")
    assert json.loads((tmp_path / "text" / "model.json").read_text()) == {"fingerprint": "images"}
    (tmp_path / "text" / "head.keras").unlink()
    with pytest.raises(ValueError, match=r"without head\.keras, expected a text model"):
        TextModel.load(tmp_path / "text")


def test_another_folder_is_an_error_that_looks_for_nothing_on_the_net(tmp_path):
    for folder in ("bert_tiny_en_uncased", tmp_path):
        with pytest.raises(ValueError, match="expected the folder of a BERT that KerasHub reads"):
            SentenceEncoder(folder)
