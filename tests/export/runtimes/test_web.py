"""The page in the browser: its files, its pixels in Node.js, and its answers in Chromium."""

import asyncio
import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
import tensorflow as tf
import tokenizers
from tokenizers import pre_tokenizers

from tests.export.runtimes.test_contract import VIEWS, drawn
from tests.serving.browser import tab
from tests.small_networks import write_static_vectors
from tfdml import export, search
from tfdml._core.checksums import require_checksums
from tfdml.datasets import Preprocessing
from tfdml.export.runtimes.web import SCRIPTS
from tfdml.models import TextModel

PAGE = Path(export.__file__).parent / "runtimes" / "page"
RUNTIME = os.environ.get("ONNXRUNTIME_WEB")  # the folder dist of the npm package
NODE = shutil.which("node")
FIT = """
import { cut, fitted } from %s;
let text = "";
for await (const chunk of process.stdin) text += chunk;
const cases = JSON.parse(text);
const pixels = ([image, settings, box]) => [...fitted(cut(image, box, settings.margin), settings)];
console.log(JSON.stringify(cases.map(pixels)));
"""
WORDS = """
import { tokens } from %s;
let text = "";
for await (const chunk of process.stdin) text += chunk;
const [tokenizer, texts] = JSON.parse(text);
console.log(JSON.stringify(texts.map((each) => tokens(each, tokenizer))));
"""


@pytest.mark.slow
def test_the_folder_holds_the_page_and_the_scripts(model, index, tmp_path):
    for name in SCRIPTS:
        (tmp_path / "dist" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "dist" / name).write_text(name)
    folder = export.web(model, tmp_path / "page", index=index, runtime=tmp_path / "dist")
    require_checksums(folder)
    assert {path.name for path in folder.iterdir()} >= {"index.html", "page.js", "pixels.js", "page.css", "model.onnx"}
    assert {path.name for path in (folder / "onnxruntime-web").iterdir()} == set(SCRIPTS)
    assert json.loads((folder / "runtime.json").read_text())["scripts"] == "onnxruntime-web/"
    export.web(model, folder, index=index)
    assert json.loads((folder / "runtime.json").read_text())["scripts"] == "../onnxruntime-web/"
    assert not (folder / "onnxruntime-web").exists()
    assert not json.loads((folder / "runtime.json").read_text())["pictures"]
    export.web(model, folder, index=index, thumbnails={7: b"a", "ant": b"b"})
    require_checksums(folder)
    assert json.loads((folder / "pictures.json").read_text()) == ["7", "ant"]
    assert [(folder / "pictures" / f"{number}.jpg").read_bytes() for number in (0, 1)] == [b"a", b"b"]


def test_the_page_names_no_other_host():
    assert not [path for path in PAGE.iterdir() if "://" in path.read_text()]


def test_the_policy_of_the_page_allows_its_own_scripts_alone():
    page = (PAGE / "index.html").read_text()
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    allowed = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert allowed.pop("script-src") == "'self' 'wasm-unsafe-eval'"
    assert allowed.pop("img-src") == "'self' data:"  # pictures of the items, the icon
    assert [allowed.pop(kind) for kind in ("default-src", "base-uri", "form-action")] == ["'none'"] * 3
    assert allowed == {"style-src": "'self'", "connect-src": "'self'"}
    assert not re.search(r"<script>|<style|\son\w+=|\sstyle=", page)


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_page_gives_the_network_the_pixels_of_the_preprocessing(tmp_path):
    settings = [
        Preprocessing(size=16),
        Preprocessing(size=(9, 14), channels=1),
        Preprocessing(size=12, fit="pad", fill=(255, 0, 90)),
        Preprocessing(size=(11, 12), fit="pad", fill=77, channels=1, resize=(16, 13)),
        Preprocessing(size=10, fit="crop", resize=14),
        Preprocessing(size=16, background=(255, 120, 0)),
        Preprocessing(size=12, fit="pad", background=255, channels=1),
    ]
    shapes = [(40, 30), (16, 16), (7, 50)]
    cases, expected = [], []
    photograph, boxes = drawn(200, seed=4)
    image = {"height": 75, "width": 60, "data": np.pad(photograph, ((0, 0), (0, 0), (0, 1))).ravel().tolist()}
    for view, box in zip(itertools.cycle(VIEWS), boxes.tolist(), strict=False):
        cases.append([image, view.get_config(), box])
        expected.append(view((photograph, box)).numpy().ravel().astype(int))
    for seed, view in enumerate(settings):
        for shape in shapes:
            rgba = np.random.default_rng(seed).integers(0, 256, (*shape, 4), dtype="uint8")
            rgba[..., 3] |= 255 * np.uint8(view.background is None)
            image = {"height": shape[0], "width": shape[1], "data": rgba.ravel().tolist()}
            cases.append([image, view.get_config()])
            expected.append(view(tf.constant(rgba)).numpy().ravel().astype(int))
    shutil.copy(PAGE / "pixels.js", tmp_path / "pixels.mjs")
    (tmp_path / "fit.mjs").write_text(FIT % json.dumps("./pixels.mjs"))
    run = subprocess.run([NODE, tmp_path / "fit.mjs"], input=json.dumps(cases), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for pixels, wanted in zip(json.loads(run.stdout), expected, strict=True):
        differences = np.abs(np.array(pixels) - wanted)
        assert differences.max() <= 1
        assert (differences == 0).mean() > 0.98


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
@pytest.mark.parametrize("kind", ["pieces", "words"])
def test_the_page_makes_the_tokens_of_the_library_tokenizers(kind, tmp_path):
    """Texts of letters, accents, digits, punctuation and blanks, by a WordPiece of BERT and by whole words."""
    letters = "abcXYZ éüß日本 .,-_'!?😀\t12"
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list(letters), 20)) for _ in range(200)] + ["two Wings", "naïve", "İ", "a" * 101]
    names = [
        "[UNK]",
        "a",
        "b",
        "##a",
        "##b",
        "ab",
        "z",
        "##yz",
        "x",
        "##y",
        "e",
        "##e",
        "日",
        "!",
        "'",
        "1",
        "##2",
        "12",
    ]
    vocabulary = {name: number for number, name in enumerate(names)}
    if kind == "pieces":
        made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = tokenizers.normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    else:
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, "[UNK]"))
        made.normalizer, made.pre_tokenizer = tokenizers.normalizers.Lowercase(), pre_tokenizers.Whitespace()
    shutil.copy(PAGE / "words.js", tmp_path / "words.mjs")
    (tmp_path / "run.mjs").write_text(WORDS % json.dumps("./words.mjs"))
    run = [NODE, tmp_path / "run.mjs"]
    sent = json.dumps([json.loads(made.to_str()), texts])
    done = subprocess.run(run, input=sent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = [[number for number in made.encode(text).ids if number] for text in texts]
    assert any(expected)
    assert json.loads(done.stdout) == expected


@pytest.mark.slow
def test_a_page_has_a_field_for_words_if_its_texts_are_static_vectors(model, index, tmp_path):
    texts = TextModel(write_static_vectors(tmp_path / "table", "a red bird", dim=index.vectors.shape[1]))
    index = search.Exact(index.vectors, index.ids)
    folder = export.web(model, tmp_path / "page", index=index, texts=texts)
    require_checksums(folder)
    assert json.loads((folder / "runtime.json").read_text())["texts"] is True
    session = onnxruntime.InferenceSession(folder / "texts.onnx")
    (ids,) = session.run(["ids"], {"tokens": np.array([[2, 4]], "int32")})
    assert ids.tolist() == index.search(texts(["a bird"]), 10)[0].tolist()
    known = json.loads((folder / "tokenizer.json").read_text())
    (tmp_path / "table" / "tokenizer.json").write_text(json.dumps(known | {"normalizer": {"type": "NFC"}}))
    with pytest.raises(ValueError, match="a text model that the page cannot read, expected static vectors whose"):
        export.web(model, tmp_path / "other", texts=TextModel(tmp_path / "table"))


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(RUNTIME is None, reason="ONNXRUNTIME_WEB does not name the folder dist of onnxruntime-web")
@pytest.mark.parametrize("texts", [True, False])
def test_a_browser_lists_the_neighbors_of_a_picture(model, images, index, texts, tmp_path):
    ids = np.array([f"item-{row}" for row in range(300)]) if texts else np.arange(300)
    gallery = search.Exact(index.vectors, ids, metadata=pa.table({"price": np.arange(300) / 4}))
    thumbnails = {str(id): tf.io.encode_jpeg(image).numpy() for id, image in zip(ids, images, strict=False)}
    options = {"index": gallery, "threshold": 0.99999, "runtime": RUNTIME, "thumbnails": thumbnails}
    folder = export.web(model, tmp_path / "page", **options)
    (tmp_path / "3.png").write_bytes(tf.io.encode_png(images[30]).numpy())
    other = images[30] * (np.arange(16) < 8).astype("uint8")[:, None]
    assert gallery.search(model.predict(other[None], verbose=0), k=1)[1] < 0.9999
    (tmp_path / "other.png").write_bytes(tf.io.encode_png(other).numpy())
    two = np.concatenate([images[40], images[30]], axis=1)
    (tmp_path / "two.png").write_bytes(tf.io.encode_png(two).numpy())
    (tmp_path / "broken.png").write_text("no image")
    expected = gallery.search(model.predict(images[30:31], verbose=0), k=10)
    asyncio.run(look(folder, tmp_path, [str(name) for name in expected[0][0]], expected[1][0]))


CELLS = "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
RECTANGLE = "(({left, top, width, height}) => [left, top, width, height])(picture.getBoundingClientRect())"
STATUS = "document.getElementById('status')?.textContent"


async def look(folder, pictures, ids, scores):
    from aiohttp import web
    from aiohttp.test_utils import TestServer

    app = web.Application()
    app.router.add_static("/", folder)
    async with TestServer(app) as running, tab(pictures / "profile") as page:
        await page.call("Page.navigate", url=str(running.make_url("/index.html")))
        await page.until(f"{STATUS} === 'Choose an image to see its neighbors.'")
        await page.drop(pictures / "3.png", 200, 180)
        await page.until(f"{STATUS} === 'A match: {ids[0]}.'")
        rows = await page.value(CELLS)
        assert [row[1] for row in rows] == ids
        np.testing.assert_allclose([float(row[2]) for row in rows], scores, atol=1e-4)
        assert rows[0][3] == f"price: {int(ids[0].split('-')[-1]) / 4:g}"
        await page.until("[...document.querySelectorAll('td img')].some(image => image.naturalWidth > 0)")
        await page.screenshot(pictures / "page.png")
        await page.drop(pictures / "other.png", 200, 180)
        await page.until(f"{STATUS} === 'Unknown: no item is near enough.'")
        await page.drop(pictures / "two.png", 200, 180)
        await page.until(f"{STATUS} === 'Unknown: no item is near enough.'")
        left, top, width, height = await page.value(RECTANGLE)
        for kind, x, y in [("mousePressed", 0.5, 0.0), ("mouseMoved", 0.8, 0.7), ("mouseReleased", 1.0, 1.0)]:
            at = {"x": left + x * width, "y": top + y * height, "button": "left", "clickCount": 1}
            await page.call("Input.dispatchMouseEvent", type=kind, **at)
        await page.until(f"{STATUS} === 'A match: {ids[0]}.'")
        await page.screenshot(pictures / "box.png")
        await page.drop(pictures / "broken.png", 200, 180)
        await page.until(f"{STATUS}.startsWith('broken.png: ')")
        assert page.complaints == []
