"""The page of a server in a browser: drop an image, filter, open a neighbor, start from a random item."""

import asyncio
import json
import types
from pathlib import Path

import numpy as np
import pytest
from aiohttp.test_utils import TestServer
from PIL import Image

from tests.serving.browser import tab
from tests.serving.quick import Quick
from tfdml import search, serving
from tfdml.datasets import Preprocessing
from tfdml.serving import server
from tfdml.visualize import Thumbnails, write_thumbnails

SIDE = 8
LEVELS = np.arange(0, 256, 16)
pytestmark = [pytest.mark.slow, pytest.mark.browser]


class Levels(Quick):
    """Embeds an image file as an angle that grows with its gray level."""

    shape = (SIDE, SIDE, 1)

    def one(self, image):
        if not image.startswith(b"\x89PNG"):
            return f"{len(image)} bytes that are not an image, expected a PNG."
        place = LEVELS.tolist().index(image[-1])
        return vectors()[place]

    def picture(self, path, side):
        return "image/png", Path(path).read_bytes()


def vectors():
    angles = LEVELS / 256 * np.pi
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")


@pytest.fixture
def folder(tmp_path):
    """A gray PNG for each level, whose last byte is its level, since bytes after an image are ignored."""
    for level in LEVELS:
        path = tmp_path / f"{level}.png"
        Image.fromarray(np.full((SIDE, SIDE), level, np.uint8)).save(path)
        path.write_bytes(path.read_bytes() + bytes([level]))
    (tmp_path / "broken.png").write_text("no image")
    return tmp_path


NAMES = "[...document.querySelectorAll('#neighbors .tile')].map(each => each.lastChild.textContent)"
STATUS = "document.getElementById('status').textContent"
WHOLE = "[...document.images].every(each => each.hidden || (each.complete && each.naturalWidth > 0))"


def names_of(places):
    return [f"{LEVELS[place]}.png" for place in places]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 1000), ("light", 400)])
def test_an_image_is_dropped_filtered_and_a_neighbor_opened(folder, monkeypatch, scheme, width, tmp_path):
    monkeypatch.setattr(server, "Embedder", Levels)
    labels = ["<b>dark</b>" if level < 128 else "bright" for level in LEVELS]
    columns = {"path": [str(folder / f"{level}.png") for level in LEVELS], "label": labels}
    index = search.Exact(vectors(), metadata=columns)
    asyncio.run(look(serving.application(None, Preprocessing(size=SIDE), index=index), folder, scheme, width))


def test_neighbors_below_the_threshold_of_the_model_stand_below_a_line(folder, monkeypatch):
    monkeypatch.setattr(server, "Embedder", Levels)
    index = search.Exact(vectors(), metadata={"path": [str(folder / f"{level}.png") for level in LEVELS]})
    model = types.SimpleNamespace(threshold=0.95)
    asyncio.run(look_at_line(serving.application(model, Preprocessing(size=SIDE), index=index), folder))


def test_words_are_searched_and_clear_when_an_item_is_opened(folder, monkeypatch):
    monkeypatch.setattr(server, "Embedder", Levels)
    index = search.Exact(vectors(), metadata={"path": [str(folder / f"{level}.png") for level in LEVELS]})
    app = serving.application(None, Preprocessing(size=SIDE), index=index, texts=lambda texts: vectors()[: len(texts)])
    asyncio.run(look_at_words(app, folder))


async def look_at_words(app, folder):
    async with TestServer(app) as running, tab(folder / "profile") as page:
        await page.call("Page.navigate", url=str(running.make_url("/")))
        await page.until("document.querySelectorAll('#items button').length > 0")
        box = "document.getElementById('text')"
        await page.value(f"{box}.value = 'a dark & square'; {box}.dispatchEvent(new Event('change'))")
        await page.until(f"{NAMES}[0] === '0.png' && {box}.value === 'a dark & square'")
        await page.value("document.querySelectorAll('#neighbors .tile')[1].click()")
        await page.until(f"location.hash === '#id=1' && {box}.value === ''")


def test_judged_answers_move_the_search_outlive_the_page_and_are_saved(folder, monkeypatch):
    monkeypatch.setattr(server, "Embedder", Levels)
    index = search.Exact(vectors(), metadata={"path": [str(folder / f"{level}.png") for level in LEVELS]})
    asyncio.run(judge(serving.application(None, Preprocessing(size=SIDE), index=index), folder))


async def judge(app, folder):
    button = "document.querySelector('.judge[aria-label=\"{}\"]')"
    saved = "decodeURIComponent(document.getElementById('save').href.split(',')[1])"
    async with TestServer(app) as running, tab(folder / "profile") as page:
        await page.call("Page.navigate", url=str(running.make_url("/#id=8")))
        await page.until(f"{NAMES}[0] === '112.png' || {NAMES}[0] === '144.png'")
        await page.value(f"{button.format('Yes: 160.png, id 10')}.click()")
        await page.until(f"{NAMES}[0] === '144.png' && {NAMES}[1] === '160.png'")
        await page.value(f"{button.format('No: 112.png, id 7')}.click()")
        await page.until(f"!{NAMES}.includes('112.png') && {NAMES}.length === 12")
        assert await page.value(f"{button.format('Yes: 160.png, id 10')}.ariaPressed") == "true"
        assert await page.value("document.getElementById('counts').textContent") == "1 yes, 1 no"
        assert await page.value(saved) == "8\t0\t7\t0\n8\t0\t10\t1\n"
        await page.screenshot(folder / "judged.png")

        await page.call("Page.reload")
        await page.until(f"typeof query !== 'undefined' && {NAMES}.length === 12 && !{NAMES}.includes('112.png')")
        await page.value("document.getElementById('forget').click()")
        await page.until(f"{NAMES}.includes('112.png') && document.getElementById('judged').hidden")
        assert page.complaints == []


async def look_at_line(app, folder):
    async with TestServer(app) as running, tab(folder / "profile") as page:
        await page.call("Page.navigate", url=str(running.make_url("/#id=8")))
        await page.until("document.getElementById('status') !== null")
        await page.until(f"{STATUS}.endsWith('neighbors, the nearest first.')")
        kinds = "[...document.getElementById('neighbors').children].map(each => each.className)"
        scores = "[...document.querySelectorAll('#neighbors span:first-of-type')].map(each => Number(each.textContent))"
        shown = await page.value(scores)
        matches = sum(score >= 0.95 for score in shown)
        assert 0 < matches < len(shown)
        assert (await page.value(kinds)).index("line") == matches
        assert await page.value("document.querySelectorAll('#neighbors meter').length") == len(shown)
        await page.screenshot(folder / "line.png")


async def look(app, folder, scheme, width):
    async with TestServer(app) as running, tab(folder / "profile", width=width, scheme=scheme) as page:
        await page.call("Page.navigate", url=str(running.make_url("/")))
        await page.until("document.querySelectorAll('#filters select').length === 1")
        assert await page.value("document.documentElement.scrollWidth <= innerWidth")

        await page.value("document.getElementById('k').value = 3")
        await page.drop(folder / "64.png", 200, 180)
        await page.until(f"{STATUS} === '3 neighbors, the nearest first.' && {WHOLE}")
        assert (await page.value(NAMES))[0] == "64.png"
        assert set(await page.value(NAMES)) == {"48.png", "64.png", "80.png"}
        titles = await page.value("[...document.querySelectorAll('#neighbors b')].map(each => each.textContent)")
        assert titles == ["<b>dark</b>"] * 3  # as text
        assert await page.value("document.querySelector('#neighbors span').textContent") == "1.000"
        picture = folder / "page.png"
        await page.screenshot(picture)
        check_picture(picture, scheme, width)

        await choose(page, "bright")
        await page.until(f"{NAMES}[0] === '128.png'")
        assert await page.value(NAMES) == names_of([8, 9, 10])

        await page.value("document.querySelector('#neighbors .tile').click()")
        await page.until(
            "location.hash === '#id=8' && document.getElementById('hint').textContent === 'bright, 128.png, id 8'"
        )
        await page.until(f"{NAMES}[0] === '144.png'")  # the query itself is left out
        await choose(page, "")
        await page.until(f"{NAMES}.includes('112.png')")
        await page.value("history.back()")
        assert page.complaints == []

        await page.drop(folder / "broken.png", 200, 180)
        await page.until(f"{STATUS}.includes('8 bytes that are not an image')")
        assert await page.value(NAMES) == []
        assert all("status of 400" in text for text in page.complaints)


def test_a_box_that_is_drawn_is_searched_and_pictures_show_the_boxes_of_items(tmp_path):
    """A photo of two halves, black and white, and an index of its halves and a gray one."""
    photo = np.repeat([[0, 255]], [60, 60], axis=1).repeat(80, axis=0).astype(np.uint8)
    Image.fromarray(photo).save(tmp_path / "photo.png")
    boxes = [[0, 0, 60, 80], [60, 0, 120, 80], [0, 0, 120, 80]]
    columns = {"path": [str(tmp_path / "photo.png")] * 3, "box": boxes, "label": ["black", "white", "both"]}
    index = search.Exact(np.array([[0, 1], [1, 0], [0.5, 0.5]], "float32"), metric="euclidean", metadata=columns)
    model = types.SimpleNamespace(predict_on_batch=halves)
    view, maps = Preprocessing(size=SIDE, channels=1), np.array([[[0.5, -0.25]], [[0.125, 0.125]]])
    app = serving.application(model, view, index=index, similarity_map=lambda a, b: maps)
    asyncio.run(draw(app, tmp_path))


def halves(pixels):
    white = pixels.mean((1, 2), dtype="float32") / 255
    return np.concatenate([white, 1 - white], axis=1)


async def draw(app, folder):
    first = "document.querySelector('#neighbors b').textContent"
    async with TestServer(app) as running, tab(folder / "profile") as page:
        await page.call("Page.navigate", url=str(running.make_url("/")))
        await page.until(f"{ITEMS}.length === 3 && {WHOLE}")
        await page.drop(folder / "photo.png", 200, 180)
        await page.until(f"{STATUS}.startsWith('3 neighbors') && {WHOLE} && {first} === 'both'")
        script = "JSON.stringify(document.getElementById('picture').getBoundingClientRect())"
        shown = json.loads(await page.value(script))
        for from_, to, label in ((0.6, 0.9, "white"), (0.4, 0.1, "black")):  # a box is drawn from any corner
            await drag(page, shown, from_, to)
            await page.until(f"{STATUS}.startsWith('3 neighbors') && {first} === '{label}' && {WHOLE}")
            box = await page.value("query.box")
            expected = [120 * min(from_, to), 16, 120 * max(from_, to), 64]
            np.testing.assert_allclose(box, expected, atol=1)
        await page.screenshot(folder / "box.png")
        await page.value("document.querySelector('.why').click()")
        await page.until(f"document.querySelectorAll('#pair img').length === 2 && {WHOLE}")
        score = await page.value("document.querySelector('#neighbors span').textContent")
        assert await page.value("document.querySelector('#pair h2').textContent") == f"Euclidean distance {score}"
        assert "the cosine of the two, 0.250" in await page.value("document.querySelector('#pair p').textContent")
        await page.screenshot(folder / "why.png")
        await page.value("document.getElementById('close').click()")
        await page.value("history.back()")
        await page.until(f"{first} === 'white'")
        await drag(page, shown, 0.5, 0.5, down=0)  # a click
        await page.until(f"query.box === undefined && {first} === 'both'")
        assert await page.value("document.getElementById('box').hidden")
        assert page.complaints == []


async def drag(page, shown, from_, to, down=0.6):
    for kind, x, y in (("Pressed", from_, 0.2), ("Moved", to, 0.2 + down / 2), ("Released", to, 0.2 + down)):
        x, y = shown["left"] + x * shown["width"], shown["top"] + y * shown["height"]
        options = {"button": "left", "buttons": 1, "clickCount": 1}
        await page.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **options)


THUMBNAILS = range(15)  # the last item has none
ITEMS = "[...document.querySelectorAll('#items button')].map(each => each.lastChild.textContent)"
QUERY = "document.getElementById('hint').textContent"


def test_the_page_greets_with_random_items_that_are_queries(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(server, "Embedder", Levels)
    images = [np.full((96, 96), LEVELS[row], np.uint8) for row in THUMBNAILS]
    thumbnails = Thumbnails.load(write_thumbnails(tmp_path / "thumbnails.npz", THUMBNAILS, images))
    columns = {"class": [f"level {level}" for level in LEVELS], "price": LEVELS}
    index = search.Exact(vectors(), metadata=columns)
    app = serving.application(None, Preprocessing(size=SIDE), index=index, thumbnails=thumbnails)
    asyncio.run(start_from_items(app, folder))


async def start_from_items(app, folder):
    async with TestServer(app) as running, tab(folder / "profile", width=400, scheme="dark") as page:
        await page.call("Page.navigate", url=str(running.make_url("/")))
        await page.until(f"{ITEMS}.length === 12 && {WHOLE}")
        assert await page.value("document.documentElement.scrollWidth <= innerWidth")
        assert await page.value(
            "[...document.querySelectorAll('#items img')].every(each => each.alt.includes(', id '))"
        )
        first = await page.value(ITEMS)
        assert len(set(first)) == 12
        await page.screenshot(folder / "page.png")
        check_picture(folder / "page.png", "dark", 400)

        await page.value("document.getElementById('others').focus()")
        await press(page, "Enter")
        await page.until(f"{ITEMS}.length === 12 && {ITEMS}.join() !== {first!r}.join()")

        shown = await page.value(ITEMS)
        await press(page, "Tab")  # to the first item
        await press(page, "Enter")
        row = int(shown[0].removeprefix("id "))
        await page.until(f"{STATUS} === '12 neighbors, the nearest first.'")
        assert await page.value(QUERY) == f"level {LEVELS[row]}, id {row}"
        neighbors = await page.value(NAMES)
        assert f"id {row}" not in neighbors
        nearest = [f"id {other}" for other in (row - 1, row + 1) if 0 <= other < len(LEVELS)]
        assert neighbors[0] in nearest
        assert await page.value(ITEMS) == []
        assert await page.value("document.activeElement === document.querySelector('#neighbors .tile')")

        await press(page, "Enter")  # the first neighbor is the next query
        await page.until(f"{QUERY}.endsWith(', {neighbors[0]}') && {NAMES}.includes('id {row}')")
        await page.value("history.go(-2)")
        await page.until(f"{ITEMS}.join() === {shown!r}.join()")
        assert await page.value(NAMES) == []

        await page.drop(folder / "240.png", 200, 180)
        await page.until(f"{NAMES}[0] === 'id 15' && {STATUS}.startsWith('12 neighbors')")
        await page.until("document.querySelector('#neighbors .tile').textContent.includes('price: 240')")
        await page.value("document.getElementById('others').click()")
        await page.until(f"{ITEMS}.length === 12")
        await page.value("history.back()")
        await page.until(f"{QUERY} === '240.png' && {NAMES}[0] === 'id 15'")
        assert all("status of 404" in text and "pictures/15" in text for text in page.complaints)


async def press(page, key):
    text = {"text": "\r"} if key == "Enter" else {}
    codes = {"Enter": 13, "Tab": 9}
    for kind in ("keyDown", "keyUp"):
        options = text if kind == "keyDown" else {}
        await page.call(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **options
        )


async def choose(page, value):
    script = f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})"
    await page.value(f"{script}(document.querySelector('#filters select'))")


def check_picture(path, scheme, width):
    """The paper has the color of the scheme, and text and pictures differ from it."""
    pixels = np.asarray(Image.open(path).convert("L")).astype(int)
    assert pixels.shape[1] == width
    paper = pixels[3, 3]
    assert (paper > 200) == (scheme == "light")
    assert (np.abs(pixels - paper) > 60).mean() > 0.004
