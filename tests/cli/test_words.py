"""From two commands to a typed word with a picture as the answer: presets and files of two towers, everywhere."""

import asyncio
import base64
import json
from pathlib import Path

import keras
import numpy as np
import onnxruntime
import pytest
import tokenizers
from aiohttp.test_utils import TestClient, TestServer

from tests.serving.browser import tab
from tests.serving.quick import EMBEDDINGS, SEARCH, answer
from tests.small_networks import write_image_text_preset
from tests.worlds import write_png
from tfdml import cli, serving
from tfdml.cli.commands import _opened
from tfdml.cli.parser import new_parser
from tfdml.models import TextModel, TwoTowers, read_embeddings

pytestmark = pytest.mark.slow  # the import of KerasHub alone takes seconds
WORDS = ["a red bird", "Two Wings"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with six photos, a preset of random weights, and the same towers as a .keras file."""
    root, rng = tmp_path_factory.mktemp("words"), np.random.default_rng(0)
    for row in range(6):
        pixels = rng.integers(0, 256, (1, 1, 3)) + rng.integers(-20, 20, (20, 24, 3))
        write_png(root / "photos" / f"{row}.png", np.clip(pixels, 0, 255).astype("uint8"))
    write_image_text_preset(root / "preset", "siglip")
    TwoTowers.from_preset(str(root / "preset")).save(root / "pair.keras")
    return root


@pytest.fixture
def run(place, monkeypatch, capsys):
    monkeypatch.chdir(place)

    def run(*words):
        code = cli.main(list(words))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def nearest(place):
    """The photos in the order of their cosine to each text, by the towers alone."""
    stored, texts = read_embeddings(place / "photos.parquet"), TextModel(TwoTowers.from_preset(str(place / "preset")))
    order = np.argsort(-np.asarray(texts(WORDS)) @ np.asarray(stored.embeddings).T, axis=1)
    return [[str(stored.paths[row]) for row in rows] for rows in order]


@pytest.mark.parametrize("model", ["hub:preset", "pair.keras"])
def test_two_commands_lead_from_photos_to_an_answer_in_pictures(run, place, model):
    assert run("embed", "photos", "photos.parquet", "--model", model)[0] == 0
    code, printed, errors = run("search", model, "photos.parquet", "-k", "6", "--json", "--text", *WORDS)
    assert (code, errors) == (0, "")
    found = [[each["metadata"]["path"] for each in query["neighbors"]] for query in json.loads(printed)]
    assert found == nearest(place)
    other = "pair.keras" if model == "hub:preset" else "hub:preset"
    assert run("search", other, "photos.parquet", "--text", *WORDS)[0] == 0  # one fingerprint


def test_images_and_texts_are_answered_over_http(run, place):
    run("embed", "photos", "photos.parquet", "--model", "hub:preset")
    options = new_parser().parse_args(["serve", "hub:preset", "--index", "photos.parquet", "--dimensions", "4,2"])
    *_, application = _opened(serving, options)
    texts = TextModel(TwoTowers.from_preset("preset"))
    url = f"data:image/png;base64,{base64.b64encode((place / 'photos' / '0.png').read_bytes()).decode()}"
    parts = [{"type": "text", "text": WORDS[0]}, {"type": "image_url", "image_url": {"url": url}}]

    async def story():
        async with TestClient(TestServer(application)) as client:
            queries = [{"text": text} for text in WORDS]
            found = (await answer(client, SEARCH, {"instances": queries, "k": 6}))[1]["neighbors"]
            names = [[each["name"] for each in query] for query in found]
            assert names == [[Path(path).name for path in paths] for paths in nearest(place)]
            vectors = [
                (await answer(client, EMBEDDINGS, {"input": each}))[1]["data"] for each in (parts, [WORDS[0], url])
            ]
            assert vectors[0] == vectors[1]
            np.testing.assert_allclose(vectors[0][0]["embedding"], texts(WORDS[:1])[0], atol=1e-5)
            short = (await answer(client, EMBEDDINGS, {"input": WORDS[0], "dimensions": 4}))[1]["data"][0]["embedding"]
            first = np.asarray(texts(WORDS[:1]))[0, :4]
            np.testing.assert_allclose(short, first / np.linalg.norm(first), atol=1e-5)
            for bad, message in {
                "bird " * 40: "tokens, expected at most 15. Cut the text",
                "...": "expected a word that the tokenizer knows",
            }.items():
                status, said = await answer(client, SEARCH, {"instances": [{"text": bad}, {"text": WORDS[0]}]})
                assert (status, message in said["error"]) == (400, True)

    asyncio.run(story())


def test_an_export_has_both_sides(run, place):
    run("embed", "photos", "photos.parquet", "--model", "hub:preset")
    words = ("export", "hub:preset", "--index", "photos.parquet", "-k", "6", "--to", "onnx", "--out", "exports")
    assert run(*words)[0] == 0
    session = onnxruntime.InferenceSession("exports/texts/texts.onnx")
    tokenizer = tokenizers.Tokenizer.from_file("exports/texts/tokenizer.json")
    tokens = np.array([each.ids for each in tokenizer.encode_batch(WORDS)], "int32")
    ids, payload = session.run(["ids", "payload"], {"tokens": tokens})
    assert [[json.loads(each)["path"] for each in row] for row in payload] == nearest(place)
    pixels = np.zeros((1, 16, 16, 3), "uint8")
    images = onnxruntime.InferenceSession("exports/onnx/model.onnx").run(["ids"], {"images": pixels})[0]
    assert images.shape == (1, 6)
    assert set(ids[0].tolist()) == set(images[0].tolist())


@pytest.mark.browser
def test_a_word_is_typed_into_the_page_and_a_picture_answers(run, place, tmp_path):
    run("embed", "photos", "photos.parquet", "--model", "hub:preset")
    *_, application = _opened(serving, new_parser().parse_args(["serve", "hub:preset", "--index", "photos.parquet"]))

    async def look():
        async with TestServer(application) as running, tab(tmp_path / "profile") as page:
            await page.call("Page.navigate", url=str(running.make_url("/")))
            await page.until("document.querySelectorAll('#items button').length > 0")
            box = "document.getElementById('text')"
            await page.value(f"{box}.value = '{WORDS[0]}'; {box}.dispatchEvent(new Event('change'))")
            name = Path(nearest(place)[0][0]).name
            first = "document.querySelector('#neighbors button').lastChild.textContent"
            await page.until(f"document.querySelector('#neighbors button') && {first} === '{name}'")
            assert page.complaints == []

    asyncio.run(look())


def test_what_is_wrong_is_one_line(run, place, tmp_path):
    run("embed", "photos", "photos.parquet", "--model", "hub:preset")
    inputs = keras.Input((16, 16, 3))
    keras.Model(inputs, keras.layers.GlobalAveragePooling2D()(inputs)).save(place / "images.keras")
    for words, message in {
        ("hub:preset", "bird " * 40): "--text: Received the text 'bird bird",
        ("hub:preset", " "): "--text: Received the text ' ', expected a text with a word.",
        ("hub:photos", "bird"): "MODEL='hub:photos': ",
        ("images.keras", "bird"): "fingerprint",
    }.items():
        code, printed, errors = run("search", words[0], "photos.parquet", "--text", words[1])
        assert (code, printed, errors.count("\n")) == (2, "", 1), errors
        assert message in errors
