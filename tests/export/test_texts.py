"""The text side of a model as ONNX and SavedModel, with the tokenizer's file that makes its input."""

import json

import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
import tokenizers

import tfdml
from tests.small_networks import word_tokenizer, write_sentence_encoder, write_static_vectors
from tfdml import export
from tfdml.models import TextModel, Tokenizer, TwoTowers

WORDS = "a red bird green"
TEXTS = ["a red bird", "Green", "a bird nobody knows"]
rng = np.random.default_rng(0)


@pytest.fixture(scope="module")
def towers():
    keras.utils.set_random_seed(0)
    pixels, tokens = keras.Input((2, 2, 1)), keras.Input((6,), dtype="int32")
    images = keras.layers.Dense(3)(keras.layers.Flatten()(pixels))
    x = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(6, 3)(tokens))
    return TwoTowers(keras.Model(pixels, images), keras.Model(tokens, x), tokenizer=Tokenizer(word_tokenizer(WORDS, 6)))


def outputs(folder, tokens):
    """What ONNX Runtime and TensorFlow make of tokens."""
    session = onnxruntime.InferenceSession(folder / "texts.onnx")
    names = [each.name for each in session.get_outputs()]
    yield dict(zip(names, session.run(names, {"tokens": tokens}), strict=True))
    served = tf.saved_model.load(str(folder / "saved_model")).signatures["serving_default"]
    yield {name: value.numpy() for name, value in served(tokens=tf.constant(tokens)).items()}


def test_a_text_tower_with_an_index_answers_the_tokens_of_its_file(towers, tmp_path):
    texts = TextModel(towers)
    index = tfdml.search.Exact(rng.normal(size=(5, 3)).astype("float32"), list("vwxyz"), model=texts.fingerprint)
    folder = export.texts(texts, tmp_path / "texts", index=index, search=export.ExactSearch(k=2))
    tokens = np.array(
        [each.ids for each in tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(TEXTS)]
    )
    ids, scores = index.search(texts(TEXTS), 2)
    for found in outputs(folder, tokens.astype("int32")):
        np.testing.assert_allclose(found["embedding"], texts(TEXTS), atol=1e-5)
        np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
        assert [
            [name if isinstance(name, str) else name.decode() for name in row] for row in found["ids"]
        ] == ids.tolist()
    facts = json.loads((folder / "texts.json").read_text())
    assert (facts["kind"], facts["length"], facts["dim"], facts["fingerprint"]) == ("tower", 6, 3, texts.fingerprint)
    export.texts(texts, folder, formats=["onnx"])  # replaces it
    assert not (folder / "saved_model").exists()


def test_static_vectors_are_a_mean_that_leaves_out_padding_and_the_unknown(tmp_path):
    inputs = keras.Input((4,))
    table = write_static_vectors(tmp_path / "table", WORDS, dim=4)
    (table / "config.json").write_text('{"normalize": true}')
    texts = TextModel(table, keras.Model(inputs, keras.layers.Dense(3)(inputs)))
    folder = export.texts(texts, tmp_path / "texts")
    facts = json.loads((folder / "texts.json").read_text())
    known = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = [each.ids for each in known.encode_batch(TEXTS, add_special_tokens=False)]
    tokens = np.full((len(rows), 5), facts["padding"], "int32")
    for row, each in zip(tokens, rows, strict=True):
        row[: len(each)] = each
    for found in outputs(folder, tokens):
        np.testing.assert_allclose(found["embedding"], texts(TEXTS), atol=1e-5)


def test_what_cannot_be_written_is_refused_before_a_file(towers, tmp_path):
    texts, other = TextModel(towers), tfdml.search.Exact(np.eye(3), model="other")
    for message, options in {
        r"formats=\['litert'\], expected some of onnx, savedmodel": {"formats": ["litert"]},
        "texts of model .* expected those of model other": {"index": other},
    }.items():
        with pytest.raises(ValueError, match=message):
            export.texts(texts, tmp_path / "texts", **options)
    assert not (tmp_path / "texts").exists()


@pytest.mark.slow  # the import of KerasHub takes seconds
def test_a_bert_answers_the_tokens_of_its_file(tmp_path):
    texts = TextModel(write_sentence_encoder(tmp_path / "encoder", "a red bird"))
    folder = export.texts(texts, tmp_path / "texts")
    encodings = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(TEXTS)
    for found in outputs(folder, np.array([each.ids for each in encodings], "int32")):
        np.testing.assert_allclose(found["embedding"], texts(TEXTS), atol=1e-5)
