"""The page of an evaluation: what it holds, what it loads, and how a browser shows it."""

import base64
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import tfdml
from tfdml.datasets import LabeledSet
from tfdml.evaluation.details import figures

NAMES = ("<b>cat</b>", "dog & 'wolf'", 'fox "red"')
LABELS = np.arange(60) % 3
SIX = np.arange(60) % 6  # the least number of classes with an interval
VECTORS = np.random.default_rng(0).normal(size=(60, 4)) + np.eye(3, 4)[LABELS]
IMAGES = np.random.default_rng(1).integers(0, 256, (60, 12, 10, 3)).astype("uint8")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser", "chrome"))), None)


def small_set(**options):
    return LabeledSet(**{"images": IMAGES, "labels": LABELS, "class_names": NAMES, **options})


def read_png(path):
    return tf.io.decode_png(tf.io.read_file(path), 3)


def written(folder, found):
    return found.html(folder / "page.html").read_text(encoding="utf-8")


class Strict(HTMLParser):
    """Every tag is closed in its order; attributes are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes)
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "source", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def cells(self):
        return " | ".join(text for text in self.text if text.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def decoded(uri):
    """The picture of a data URI: the root of an SVG, or an image of Pillow."""
    kind, content = re.fullmatch(r"data:image/(svg\+xml|png|jpeg);base64,(.*)", uri).groups()
    content = base64.b64decode(content, validate=True)
    if kind == "svg+xml":
        return ElementTree.fromstring(content)
    picture = Image.open(io.BytesIO(content))
    picture.load()
    assert picture.format.lower() == kind
    return picture


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The page of an evaluation alone."""
    return written(tmp_path_factory.mktemp("alone"), tfdml.evaluate(VECTORS, small_set(), k=1))


def test_the_page_is_whole_and_needs_no_other_file(text):
    page = Strict(text)
    assert not page.all("script") + page.all("link") + page.all("iframe")
    uris = [each["src"] for each in page.all("img")] + [each["srcset"] for each in page.all("source")]
    assert len(uris) > 20
    for uri in uris:
        decoded(uri)
    for attributes in [attributes for _, attributes in page.tags]:
        assert not {"onclick", "onload", "style"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in text.split("</style>")[0]
    assert "default-src 'none'" in text


def test_the_page_can_be_read_without_eyes(text):
    page = Strict(text)
    assert page.all("html") == [{"lang": "en"}]
    assert all(each["alt"] for each in page.all("img"))
    assert all(each["scope"] in ("row", "col") for each in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table")) == 2
    names = {each["id"] for each in page.all("section")}
    assert {each["href"].removeprefix("#") for each in page.all("a")} == names
    assert {each["aria-label"] for each in page.all("span") if "aria-label" in each} == {"correct", "wrong"}


def test_the_page_shows_the_numbers_of_the_record(tmp_path):
    of_six = small_set(labels=SIX, class_names=tuple("abcdef"), protocol="animals/class-disjoint/exact-cosine/v1")
    found = tfdml.evaluate(VECTORS, of_six, k=1)
    text = " ".join("".join(Strict(written(tmp_path, found)).text).split())
    assert "animals/class-disjoint/exact-cosine/v1" in text
    for value in found.metrics.values():
        assert value.text() in text
    details = found.details["model"]
    assert f"first correct at rank {details.hardest[0].rank}" in text
    assert f"{details.suspects} queries whose first three neighbors" in text
    assert f"{details.confusions[0].errors} of {details.confusions[0].queries}" in text
    assert text.index(found.verdict) < text.index("Good and bad answers") < text.index("Means")
    assert found.date in text
    assert found.environment["hardware"] in text


def test_names_are_escaped_and_a_single_model_is_not_named(text):
    assert "<b>cat</b>" not in text
    shown = "".join(Strict(text).text)
    assert all(name in shown for name in NAMES)
    assert "model:" not in shown


def test_the_same_evaluation_gives_the_same_page(tmp_path):
    pages = {written(tmp_path, tfdml.evaluate(VECTORS, small_set(), k=1, shown=2)) for _ in range(2)}
    assert len(pages) == 1


def test_small_images_are_shown_pixel_by_pixel(tmp_path):
    found = tfdml.evaluate(VECTORS, small_set(), k=1, shown=1)
    page = Strict(written(tmp_path, found))
    row = found.details["model"].hardest[0].query.row
    (uri, *_) = [each["src"] for each in page.all("img") if each.get("title") == str(row)]
    np.testing.assert_array_equal(np.asarray(decoded(uri)), IMAGES[row])


def test_only_the_files_on_the_page_are_read_and_large_ones_are_reduced(tmp_path):
    paths = [tmp_path / f"{row}.png" for row in range(60)]
    found = tfdml.evaluate(VECTORS, small_set(images=None, paths=np.array(paths, str), load=read_png), k=1, shown=1)
    details = found.details["model"]
    listed = [(details.hardest[0].query, *(each.example for each in details.hardest[0].neighbors))]
    listed += [(each.query, each.neighbor.example) for each in details.near_duplicates]
    listed += [(each.query, *(near.example for near in each.neighbors)) for each in details.label_suspects]
    shown = {example.row for row in listed for example in row} | set(found.query_names)
    shown |= {found.neighbors["model"][row][0].example.row for row in found.query_names}
    assert len(shown) < 30
    for row in shown:  # the other files do not exist
        Image.fromarray(IMAGES[row]).resize((200, 100)).save(paths[row])
    page = Strict(written(tmp_path, found))
    pictures = {each["title"]: decoded(each["src"]) for each in page.all("img") if "title" in each}
    assert set(pictures) == {str(paths[row]) for row in shown}
    assert {(picture.format, picture.size) for picture in pictures.values()} == {("JPEG", (96, 48))}


def test_a_file_that_is_gone_is_shown_by_name(tmp_path):
    paths = np.array([str(tmp_path / f"{row}.png") for row in range(60)])
    found = tfdml.evaluate(VECTORS, small_set(images=None, paths=paths, load=read_png), k=1, shown=1)
    page = Strict(written(tmp_path, found))
    assert not [each for each in page.all("img") if "title" in each]
    assert str(paths[found.good[0]]) in page.text


def test_queries_and_gallery_have_pictures_of_their_own_sets(tmp_path):
    gallery = small_set(images=IMAGES[::-1])
    found = tfdml.evaluate(VECTORS, small_set(), gallery=gallery, gallery_embeddings=VECTORS[::-1], k=1, shown=1)
    page = Strict(written(tmp_path, found))
    row = found.details["model"].near_duplicates[0].query.row
    titles = [each for each in page.all("img") if each.get("title") in (str(row), str(59 - row))]
    np.testing.assert_array_equal(np.asarray(decoded(titles[-1]["src"])), np.asarray(decoded(titles[-2]["src"])))


def test_embeddings_with_labels_alone_are_shown_by_row(tmp_path):
    found = tfdml.evaluate(VECTORS, LABELS, k=1, shown=2)
    page = Strict(written(tmp_path, found))
    assert len(page.all("img")) == 3  # the curves
    assert str(found.details["model"].hardest[0].query.row) in page.text


FROZEN = np.random.default_rng(2).normal(size=(60, 4)) + np.eye(3, 4)[LABELS] / 2


def test_several_models_stand_beside_each_other_in_tables_and_curves(tmp_path):
    of_six = small_set(labels=SIX, class_names=tuple("abcdef"))
    found = tfdml.evaluate({"tuned & best": VECTORS, "frozen": FROZEN}, of_six, k=(1, 4), shown=0)
    page = Strict(written(tmp_path, found))
    rows = page.cells()
    assert "metric | tuned & best | frozen" in rows
    for name, mean in found.means["frozen"].items():
        assert f"{name} | {found.means['tuned & best'][name].text()} | {mean.text()}" in rows
    difference = found.pairs[0].comparison
    assert f"tuned & best - frozen | {100 * difference.difference:+.1f} [{100 * difference.low:+.1f}, " in rows
    details = found.details["frozen"]
    assert f"frozen: {100 * details.recall.y[0]:.1f}% at k = 1" in " ".join(page.text)
    drawn = figures.svg(figures.draw_recall, found.details, figures.LIGHT)
    assert any(each["src"].endswith(base64.b64encode(drawn.encode()).decode()) for each in page.all("img"))
    assert len(page.all("source")) == 4


def test_too_few_classes_have_no_interval_on_the_page_and_in_the_file(tmp_path):
    found = tfdml.evaluate(VECTORS, small_set(), k=1, shown=0)
    page = Strict(written(tmp_path, found))
    assert f"map@r | {100 * found.metrics['map@r'].value:.1f} | recall@1" in page.cells()
    assert "No interval: 3 classes; a 95% interval needs 6." in page.text
    assert '"low": null,' in (found.save(tmp_path / "out") / "evaluation.json").read_text()


@pytest.mark.parametrize("draw", [figures.draw_recall, figures.draw_precision_recall])
def test_each_model_has_a_curve_and_its_name_in_the_legend(draw):
    details = tfdml.evaluate(VECTORS, small_set(), k=1, shown=0).details["model"]
    names = ["frozen", "_hidden", r"a $\frac{1 <b>", "d", "e", "f", "g"]
    alone, beside = (
        figures.svg(draw, dict.fromkeys(each, details), figures.LIGHT) for each in (["model"], ["model", *names])
    )
    # Each model has a line and a sample of it, once there is a legend.
    assert beside.count('id="line2d_') - alone.count('id="line2d_') == 2 * len(names) + 1
    assert all(f"<!--  {name} -->" in beside for name in ("model", "_hidden", "g"))


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "light"), [("light", True), ("dark", False)])
def test_a_browser_shows_the_page_in_light_and_in_dark(tmp_path, scheme, light):
    path = tfdml.evaluate(VECTORS, small_set(), k=1, shown=2).html(tmp_path / "page.html")
    picture = tmp_path / "page.png"
    flags = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --hide-scrollbars"
    dark = [] if light else ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]
    command = [BROWSER, *flags.split(), *dark, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,1200"]
    subprocess.run([*command, f"--screenshot={picture}", path.as_uri()], check=True, capture_output=True, timeout=120)
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    paper = pixels[3, 3]
    assert (paper.mean() > 200) == light
    ink = np.abs(pixels - paper).sum(axis=2) > 200
    assert 0.01 < ink.mean() < 0.5
    figures = ink[450:800]  # the three curves stand side by side, from the left to the right border
    assert all(part.any() for part in np.array_split(figures, 3, axis=1))
