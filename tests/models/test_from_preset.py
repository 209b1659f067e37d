"""Towers of images and texts of presets of random weights, beside the features and the token numbers of KerasHub."""

import warnings

import keras
import numpy as np
import pytest

import tfdml
from tests.backend import BACKEND
from tests.small_networks import WORDS, write_image_text_preset
from tfdml.models import TextModel, TwoTowers

pytestmark = [pytest.mark.slow, pytest.mark.backends]  # the import of KerasHub alone takes seconds

KINDS = ("clip", "siglip", "siglip2", "metaclip2")
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3)).astype("uint8")
TEXTS = ["A  Photo of a red bird ", "two WINGS", "bird"]
NAMES = {"clip": "CLIPPreprocessor", "metaclip2": "MetaCLIP2CausalLMPreprocessor"}


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """kind -> (folder, backbone of KerasHub)."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    return {kind: (str(folder), write_image_text_preset(folder, kind)) for kind, folder in folders.items()}


def token_ids(folder, kind, texts, length=16):
    """The token numbers of KerasHub's own preprocessor."""
    import keras_hub

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file of a vocabulary open
        tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(folder)
    build = getattr(keras_hub.models, NAMES.get(kind, "SigLIPPreprocessor"))
    found = build(tokenizer, sequence_length=length)({"images": np.zeros((len(texts), 1)), "prompts": list(texts)})
    return np.asarray(found["token_ids"])


def unit(x):
    x = keras.ops.convert_to_numpy(x)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_both_towers_are_those_of_kerashub(presets, kind):
    folder, network = presets[kind]
    model = TwoTowers.from_preset(folder)
    images, texts = model.towers
    tokens = token_ids(folder, kind, TEXTS)
    np.testing.assert_array_equal(model.tokenizer(TEXTS), tokens)
    pixels = (IMAGES * np.array([0.01, 0.02, 0.03]) + np.array([-1.0, -0.5, 0.5])).astype("float32")
    expected = unit(network.get_vision_embeddings(pixels)), unit(network.get_text_embeddings(tokens))
    found = images.predict(IMAGES, verbose=0), texts.predict(tokens, verbose=0)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)
    logits = network({"images": pixels, "token_ids": tokens})["text_logits"]
    bias = 0.0 if model.bias is None else model.bias
    found_logits = model.scale * found[1] @ found[0].T + bias
    np.testing.assert_allclose(found_logits, keras.ops.convert_to_numpy(logits), atol=2e-4)
    assert (model.bias is None) == (kind in ("clip", "metaclip2"))
    view = tfdml.datasets.Preprocessing.for_model(images)
    assert (view.size, view.fit) == ((16, 16), "stretch" if "siglip" in kind else "crop")


@pytest.mark.parametrize("kind", KINDS[1:])
def test_words_in_any_order_and_unknown_letters_are_the_pieces_of_sentencepiece(presets, kind):
    folder, _ = presets[kind]
    rng, tokenizer = np.random.default_rng(1), TwoTowers.from_preset(folder).tokenizer
    words = [*WORDS, "birds", "xylophone", "Tree", "日本", "ﬁr", "t\u0301ree"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 4))) for _ in range(40)]
    short = [text for text in texts if len(text) < 20]
    expected = token_ids(folder, kind, short, 80)
    found = [row.tolist() for row in _longer(tokenizer, 80)(short)]
    assert found == expected.tolist()


def _longer(tokenizer, length):
    """The same with room for more tokens."""
    library = pytest.importorskip("tokenizers").Tokenizer.from_str(tokenizer.to_json())
    padding = library.padding
    library.enable_padding(length=length, pad_id=padding["pad_id"], pad_token=padding["pad_token"])
    return tfdml.models.Tokenizer(library.to_str())


def test_only_siglip_1_drops_punctuation_since_it_was_shown_none(presets):
    for kind, is_dropped in {"siglip": True, "siglip2": False, "clip": False, "metaclip2": False}.items():
        tokens = TwoTowers.from_preset(presets[kind][0]).tokenizer(["a bird", "a bird."])
        assert (tokens[0] == tokens[1]).all() == is_dropped, kind


def test_clip_reads_each_digit_alone(presets):
    tokens = TwoTowers.from_preset(presets["clip"][0]).tokenizer(["1 1", "11"])
    np.testing.assert_array_equal(tokens[0], tokens[1])


def test_a_file_keeps_the_tokenizer_and_the_learned_numbers(presets, tmp_path):
    model = TwoTowers.from_preset(presets["siglip2"][0])
    model.save(tmp_path / "pair.keras")
    loaded = keras.saving.load_model(tmp_path / "pair.keras")
    assert (loaded.scale, loaded.bias, loaded.image_fit) == (model.scale, model.bias, model.image_fit)
    np.testing.assert_array_equal(loaded.tokenizer(TEXTS), model.tokenizer(TEXTS))
    texts, again = TextModel(model), TextModel(loaded)
    np.testing.assert_array_equal(again(TEXTS), texts(TEXTS))
    images = model.towers[0]
    embedded = tfdml.models.embed(images, IMAGES)
    assert texts(TEXTS).fingerprint == again.fingerprint == embedded.fingerprint  # one for both
    index = tfdml.search.Exact(embedded)
    assert index.search(again(TEXTS), 2)[0].shape == (3, 2)
    again.save(tmp_path / "text")
    np.testing.assert_allclose(TextModel.load(tmp_path / "text")(TEXTS), texts(TEXTS), atol=1e-6)


def test_it_is_tuned_on_pairs_from_its_own_scale_and_bias(presets):
    model = TwoTowers.from_preset(presets["siglip"][0])
    scale = tfdml.layers.LearnedScalar(model.scale, log=True)
    loss = tfdml.losses.SigmoidLoss(scale=scale, bias=tfdml.layers.LearnedScalar(model.bias))
    model.compile(keras.optimizers.Adam(0.01), loss=loss, run_eagerly=BACKEND == "tensorflow")  # less than its graph
    first = model.evaluate((IMAGES, model.tokenizer(TEXTS)), np.arange(3), batch_size=3, verbose=0)
    history = model.fit((IMAGES, model.tokenizer(TEXTS)), np.arange(3), batch_size=3, epochs=8, verbose=0)
    assert history.history["loss"][-1] < first


def test_bad_texts_are_refused_before_the_network_computes(presets):
    texts = TextModel(TwoTowers.from_preset(presets["siglip"][0]))
    for bad, message in {
        "a bird": r"one text, 'a bird', expected a list of texts",
        ("a bird", " \n"): r"the text ' \\n', expected a text with a word",
        ("...",): r"the text '...', expected a word that the tokenizer knows",
        ("bird " * 30,): r"the text 'bird bird .*\.\.\.' of \d+ tokens, expected at most 15\. Cut the text",
        (3,): "3 among the texts, expected texts",
    }.items():
        for call in (texts, texts.require):
            with pytest.raises(ValueError, match=message):
                call(bad)


def test_a_preset_without_texts_or_with_the_tokenizer_of_another_model_is_refused(presets, tmp_path):
    import keras_hub

    vit = keras_hub.models.ViTBackbone((16, 16, 3), patch_size=8, num_layers=1, num_heads=2, hidden_dim=8, mlp_dim=16)
    vit.save_to_preset(str(tmp_path / "vit"))
    with pytest.raises(ValueError, match=r"vit.* expected a preset of CLIP, SigLIP or MetaCLIP .*ViTBackbone, without"):
        TwoTowers.from_preset(str(tmp_path / "vit"))
    network = write_image_text_preset(tmp_path / "other", "siglip")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (tmp_path / "other" / "tokenizer.json").unlink()
    keras_hub.models.BertTokenizer(vocabulary=words).save_to_preset(str(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"BertTokenizer of .* tokens is not the one of its text encoder"):
        TwoTowers.from_preset(str(tmp_path / "other"))
    images = TwoTowers.from_preset(presets["siglip"][0]).towers[0]
    short = keras.Input((4,), dtype="int32")
    texts = keras.Model(short, keras.layers.Dense(8)(keras.ops.cast(short, "float32")))
    with pytest.raises(ValueError, match=r"a gallery of \(None, 4\), expected token numbers \(batch, 16\)"):
        TwoTowers(images, texts, tokenizer=TwoTowers.from_preset(presets["siglip"][0]).tokenizer)
    with pytest.raises(ValueError, match="two towers without a tokenizer"):
        TextModel(TwoTowers(images, images))
    assert network.text_encoder.vocabulary_size > 0
