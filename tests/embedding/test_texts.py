"""Vectors of texts: the mean over words, heads, and files, with a BERT of random weights."""

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.small_networks import write_sentence_encoder, write_static_vectors
from tfdml.models import TextModel

TEXTS = ["a bird", "a red bird", "bird"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sentence_encoder(tmp_path_factory.mktemp("bert") / "encoder", "a red bird")


def test_a_text_is_the_mean_of_the_outputs_of_its_words_and_marks(folder):
    import keras_hub

    network = keras_hub.models.BertBackbone.from_preset(str(folder))
    texts = [*TEXTS, "a " * 126]
    expected = []
    for text in texts:  # one at a time, without padding, between the marks of the beginning and of the end
        tokens = np.array([[2, *({"a": 5, "red": 6, "bird": 7}[word] for word in text.split()), 3]])
        inputs = {"token_ids": tokens, "padding_mask": np.ones_like(tokens), "segment_ids": np.zeros_like(tokens)}
        expected.append(keras.ops.convert_to_numpy(network(inputs)["sequence_output"])[0].mean(axis=0))
    model = TextModel(folder)
    found = model([*TEXTS[:1], "Ä RED bird", *texts[2:]])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.fingerprint is None
    with pytest.raises(ValueError, match=r"of 127 tokens, expected at most 126. Cut the text"):
        model(["a " * 127])


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


def test_static_vectors_are_means_of_the_rows_of_known_tokens(tmp_path):
    """The form of model2vec: a row for each token, or for several by `mapping`, with a factor by `weights`."""
    folder = write_static_vectors(tmp_path / "table", "a red bird")
    tensors = load_file(folder / "model.safetensors")
    table = tensors["embeddings"].astype("float32")  # of [PAD], [UNK], a, red, bird
    model = TextModel(folder)
    np.testing.assert_allclose(model(["a bird", "bird unknown"]), [(table[2] + table[4]) / 2, table[4]], rtol=1e-6)
    assert (model.dim, model.fingerprint) == (8, None)
    model.save(tmp_path / "text")
    np.testing.assert_array_equal(TextModel.load(tmp_path / "text")(TEXTS), model(TEXTS))
    mapping, weights = np.array([0, 1, 2, 2, 3]), np.array([1, 1, 1, 2, 0.5])
    save_file(tensors | {"mapping": mapping, "weights": weights}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"normalize": true}')
    mean = (table[2] + 2 * table[2] + 0.5 * table[3]) / 3
    np.testing.assert_allclose(TextModel(folder)(["a red bird"])[0], mean / np.linalg.norm(mean), rtol=1e-5)


def test_a_table_of_another_tokenizer_and_texts_without_a_known_word_are_refused(tmp_path):
    folder = write_static_vectors(tmp_path / "table", "a red bird")
    model = TextModel(folder)
    for texts, message in {
        ("a bird", "xylophone"): "the text 'xylophone', expected a word that the tokenizer knows",
        ("",): "the text '', expected a text with a word",
    }.items():
        for call in (model, model.require):
            with pytest.raises(ValueError, match=message):
                call(texts)
    save_file({"embeddings": np.zeros((4, 8), "float32")}, folder / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"a table of 4 rows, expected a row for each of the 5 tokens of its tokenizer"
    ):
        TextModel(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"a tokenizer that cannot be read \(.*\), expected a tokenizer.json"):
        TextModel(folder)
