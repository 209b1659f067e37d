"""Vectors of texts: the mean over words, heads, and files, with a BERT of random weights."""

import keras
import numpy as np
import pytest

from tests.small_networks import write_sentence_encoder
from tfdml.models import TextModel

TEXTS = ["a bird", "a red bird", "bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sentence_encoder(tmp_path_factory.mktemp("bert") / "encoder", "a red bird")


def test_a_text_is_the_mean_of_the_outputs_of_its_words_and_marks_up_to_the_62nd_word(folder):
    import keras_hub

    network = keras_hub.models.BertBackbone.from_preset(str(folder))
    texts = [*TEXTS, "a " * 62]
    expected = []
    for text in texts:  # one at a time, without padding, between the marks of the beginning and of the end
        tokens = np.array([[2, *({"a": 5, "red": 6, "bird": 7}[word] for word in text.split()), 3]])
        inputs = {"token_ids": tokens, "padding_mask": np.ones_like(tokens), "segment_ids": np.zeros_like(tokens)}
        expected.append(np.asarray(network(inputs)["sequence_output"])[0].mean(axis=0))
    found = TextModel(folder)([*TEXTS, "a " * 62 + "red bird"])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.fingerprint is None


def test_a_text_model_is_saved_with_its_encoder_and_the_model_of_its_images(folder, tmp_path):
    inputs = keras.Input((8,))
    model = TextModel(folder, keras.Model(inputs, keras.layers.Dense(3)(inputs)), fingerprint="images")
    for _ in range(2):  # the second one replaces the first
        model.save(tmp_path / "text")
    loaded = TextModel.load(tmp_path / "text")(TEXTS)
    np.testing.assert_allclose(loaded, model(TEXTS), atol=1e-6)
    assert (loaded.shape, loaded.fingerprint) == ((3, 3), "images")
    (tmp_path / "text" / "model.json").write_text('{"fingerprint": "others"}')
    with pytest.raises(ValueError, match=r"model\.json"):
        TextModel.load(tmp_path / "text")


def test_other_files_are_not_replaced(folder, tmp_path):
    inputs = keras.Input((8,))
    note = tmp_path / "text" / "encoder" / "note.txt"
    note.parent.mkdir(parents=True)
    note.write_text("mine")
    with pytest.raises(FileExistsError):
        TextModel(folder, keras.Model(inputs, keras.layers.Dense(3)(inputs))).save(tmp_path / "text")
    assert note.read_text() == "mine"


def test_another_folder_is_an_error_that_looks_for_nothing_on_the_net(tmp_path):
    for folder in ("bert_tiny_en_uncased", tmp_path):
        with pytest.raises(ValueError, match="expected the folder of a BERT that KerasHub reads"):
            TextModel(folder)
