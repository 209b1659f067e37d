"""Runs with captions: batches, retrieval in both directions, and a run from a table to a search in words."""

import importlib
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.small_networks import write_sentence_encoder
from tests.training.test_train import TINY, labeled, stops_at, without_outputs
from tfdml import cli, training
from tfdml.datasets import with_captions
from tfdml.training.captions import Texts, images_for_texts, texts_for_images, with_texts
from tfdml.training.options import SETTINGS

module = importlib.import_module("tfdml.training.train")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(
        write_sentence_encoder(tmp_path_factory.mktemp("bert") / "encoder", "thing photo of 0 1 2 3 4 5 6 7 8 9")
    )


def captioned(sizes):
    """Every image has the caption of its class, every second one another one, too."""
    data = labeled(sizes)
    texts = [(f"thing {label}", f"photo {row} of {label}")[: 1 + row % 2] for row, label in enumerate(data.labels)]
    return with_captions(data, texts)


def by_loops(queries, items, is_right):
    """Recall@1 and MAP@R of each query by cosine similarity."""
    recalls, precisions = [], []
    for i, query in enumerate(queries):
        scores = [query @ item / np.linalg.norm(query) / np.linalg.norm(item) for item in items]
        right = [is_right(i, j) for j in np.argsort(np.negative(scores), kind="stable")]
        total = sum(right)
        recalls.append(float(right[0]))
        precisions.append(sum(sum(right[: r + 1]) / (r + 1) for r in range(total) if right[r]) / total)
    return recalls, precisions


def test_images_find_each_of_their_captions_and_captions_all_of_their_images():
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    numbers = np.array([[0, 1], [1, -1], [2, 3], [3, 0], [4, -1], [4, 2]])
    for found, expected in (
        (images_for_texts(images, texts, numbers), by_loops(texts, images, lambda t, i: t in numbers[i])),
        (texts_for_images(images, texts, numbers), by_loops(images, texts, lambda i, t: t in numbers[i])),
    ):
        np.testing.assert_allclose([found["recall@1"], found["map@r"]], expected)


def test_batches_draw_each_caption_of_an_image_and_go_on_from_any_step():
    numbers = np.array([[0, 1, 2], [1, -1, -1], [3, 4, -1]])
    texts = Texts(encoder=None, vectors=np.eye(5, dtype="float32"), numbers=numbers)
    rows = tf.data.Dataset.from_tensors((np.arange(3.0), np.arange(3))).repeat(200)
    drawn = list(with_texts(rows, texts, seed=1, start=0).as_numpy_iterator())
    chosen = np.array([labels for _, labels in drawn])
    assert [set(column) for column in chosen.T] == [{0, 1, 2}, {1}, {3, 4}]
    shares = [(chosen[:, 0] == text).mean() for text in range(3)]
    np.testing.assert_allclose(shares, 1 / 3, atol=0.1)
    (_, vectors), labels = drawn[0]
    np.testing.assert_array_equal(vectors, np.eye(5)[labels])
    later = [labels for _, labels in with_texts(rows, texts, seed=1, start=150).take(50).as_numpy_iterator()]
    np.testing.assert_array_equal(later, chosen[150:])


def test_the_captions_of_a_part_are_numbered_anew():
    numbers = np.array([[0, 1], [2, -1], [1, -1]])
    part = Texts(encoder=None, vectors=np.eye(3), numbers=numbers).take(np.array([2, 1]))
    assert part.numbers.tolist() == [[0, -1], [1, -1]]
    np.testing.assert_array_equal(part.vectors, np.eye(3)[[1, 2]])


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["all", "lora"])
def test_a_run_with_captions_that_is_interrupted_resumes_to_the_same_bits(tmp_path, monkeypatch, encoder, tuning):
    without_outputs(monkeypatch)
    options = {**TINY, "steps": 4, "epochs": 2, "text_encoder": encoder, "tuning": tuning}
    whole = training.train(captioned([4] * 10), tmp_path / "whole", verbose=0, **options)
    with monkeypatch.context() as patch:
        patch.setattr(module, "print_line", stops_at(2))
        cut = training.train(captioned([4] * 10), tmp_path / "cut", **options)
    with pytest.raises(ValueError, match="a set that has changed"):
        training.train(labeled([4] * 10), cut.folder, resume=True, verbose=0)
    training.train(captioned([4] * 10), cut.folder, resume=True, verbose=0)
    models = [keras.saving.load_model(run.folder / "state" / "training.keras") for run in (whole, cut)]
    for ours, theirs in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.fixture(scope="module")
def run(tmp_path_factory, encoder):
    """The folder of a run from files and a table, and its record."""
    root = tmp_path_factory.mktemp("captions")
    images, lines = captioned([4] * 10), ["path,caption"]
    for row, (pixels, label) in enumerate(zip(images.images, images.labels, strict=True)):
        path = root / "photos" / str(label) / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(pixels).numpy())
        lines += [f"{path.relative_to(root)},{caption}" for caption in images.captions[row]]
    (root / "captions.csv").write_text("\n".join(lines))
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**TINY, "steps": 4, "epochs": 2}.items()]
    words = [str(root / "photos"), "--captions", str(root / "captions.csv"), "--text-encoder", encoder]
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("builtins.print", lambda text, **_: printed.append(text))
        assert cli.main(["train", *words, "--out", str(root / "run"), "--json", *options]) == 0
    return root / "run", json.loads(printed[-1])


@pytest.mark.slow
def test_a_run_with_captions_measures_both_directions_and_is_searched_by_words(run, capsys):
    folder, record = run
    texts = tfdml.models.TextModel.load(folder / "text")
    model, preprocessing = tfdml.zoo.load(str(folder)), tfdml.export.load(folder).preprocessing
    assert texts.fingerprint == tfdml.models.fingerprint(model, preprocessing)
    assert {name: set(values) for name, values in record["metrics"]["captions"].items()} == {
        "text to image": {"recall@1", "map@r"},
        "image to text": {"recall@1", "map@r"},
    }
    assert record["settings"]["loss"] == "clip"
    for page in ("README.md", "report.html"):
        assert "Captions of the validation part, in %: text to image recall@1" in (folder / page).read_text()
    index = tfdml.search.load(folder / "index")
    ids, _ = index.search(texts(["thing 3"]), 2)
    picture = folder.parent / "photos" / "3" / "12.png"
    words = ["search", str(folder), str(folder / "index"), str(picture), "--text", "thing 3", "-k", "2", "--json"]
    assert cli.main(words) == 0
    image, text = json.loads(capsys.readouterr().out)
    assert (image["image"], text["text"]) == (str(picture), "thing 3")
    assert [neighbor["id"] for neighbor in text["neighbors"]] == ids[0].tolist()
    assert image["neighbors"][0]["id"] == 12


@pytest.mark.slow
def test_words_need_a_text_model_of_the_same_run(run, tmp_path, capsys):
    folder, _ = run
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "text" / "model.json").write_text(json.dumps({"fingerprint": "0" * 64}))
    words = ["search", str(other), str(folder / "index"), "--text", "thing 3"]
    assert cli.main(words) == 2
    assert "Received texts of model 000000000000" in capsys.readouterr().err
    shutil.rmtree(other / "text")
    assert cli.main(words) == 2
    assert "a model without a text model, expected a run of tfdml train --captions" in capsys.readouterr().err
    assert cli.main(words[:3]) == 2
    assert "no image and no --text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (captioned([4] * 10), {}, "a set with captions, and text_encoder='none', expected both or neither"),
        (labeled([4] * 10), {"text_encoder": "bert"}, "no captions, and text_encoder='bert', expected both"),
        (captioned([4] * 10), {"text_encoder": "bert", "loss": "triplet"}, "loss='triplet', expected 'clip' with"),
        (labeled([4] * 10), {"loss": "clip"}, "loss='clip', expected 'clip' with captions, and another loss"),
        (captioned([4] * 10), {"text_encoder": "gone"}, "'gone', expected the folder of a BERT"),
    ],
)
def test_captions_and_an_encoder_come_together(tmp_path, data, options, message):
    with pytest.raises(ValueError, match=message):
        training.train(data, tmp_path / "run", verbose=0, **{**TINY, **options})
    assert not (tmp_path / "run").exists()
    assert "text_encoder" in SETTINGS
