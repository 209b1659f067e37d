"""Runs with captions: subjects, batches, retrieval in both directions, and a run from a table to a search in words."""

import importlib
import json
import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.small_networks import write_sentence_encoder
from tests.training.test_train import TINY, labeled, stops_at, without_outputs
from tfdml import cli, training
from tfdml.datasets import with_captions
from tfdml.training import captions as captions_module
from tfdml.training.captions import Captions, captions_of, evaluations_of_captions
from tfdml.training.network import training_batches
from tfdml.training.options import NAMES, TrainingSettings

module = importlib.import_module("tfdml.training.train")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "encoder"
    return str(write_sentence_encoder(folder, "thing photo of 0 1 2 3 4 5 6 7 8 9"))


@pytest.fixture
def letters(monkeypatch):
    """A sentence encoder of texts of one letter, as its number."""
    monkeypatch.setattr(captions_module, "TextModel", lambda _: lambda texts: np.array([[ord(x)] for x in texts], "f4"))


def captioned(sizes=10 * (4,)):
    """Every image has the caption of its class, every second one another one, too."""
    data = labeled(list(sizes))
    texts = [(f"thing {label}", f"photo {row % 10} of {label}") for row, label in enumerate(data.labels)]
    return with_captions(data, [text[: 1 + row % 2] for row, text in enumerate(texts)])


def test_a_batch_has_different_subjects_each_with_an_image_and_one_of_its_captions(letters):
    data = with_captions(labeled([1] * 6), [["a", "b"], ["c"], ["b", "d"], ["e"], ["d"], ["c", "f"]])
    data = replace(data, images=np.ones((6, 20, 16, 3), "uint8") * np.arange(6, dtype="uint8")[:, None, None, None])
    found, pairs = captions_of(data, None), {(row, text) for row in range(6) for text in data.captions[row]}
    assert found.texts[:, 0].tolist() == [ord(text) for text in "abcdef"]
    assert found.images.labels.tolist() == [0, 1, 0, 2, 0, 1]  # images that share a caption, also through others
    assert found.labels.tolist() == [0, 0, 1, 0, 2, 1]
    settings = TrainingSettings(**dict.fromkeys(NAMES) | TINY | {"seed": 1, "fit": "crop", "mirror": False})
    batches, drawn = list(training_batches(settings, data).take(60).as_numpy_iterator()), set()
    for (texts, images), subjects in batches:
        rows = images[:, 8, 8, 0].round().astype(int)
        assert sorted(subjects.tolist()) == [0, 1, 2]
        assert found.images.labels[rows].tolist() == subjects.tolist()
        drawn |= {(int(row), chr(int(text))) for row, text in zip(rows, texts[:, 0], strict=True)}
    assert drawn == pairs
    later = training_batches(settings, data, start=50).take(10).as_numpy_iterator()
    for (ours, _), (theirs, _) in zip(batches[50:], later, strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_texts_find_all_images_of_their_subject_and_the_other_way_around():
    inputs = keras.Input((2,))
    texts, images = np.array([[1, 0], [0, 1], [0.8, 0.6]]), np.array([[1, 0.1], [-1, 0], [0.6, 1]])
    found = Captions(labeled([2, 1]), texts, np.array([0, 0, 1]), np.empty((0, 2)))
    values = evaluations_of_captions(found, keras.Model(inputs, inputs), images)
    # the first text: images 0, 2, 1, of which 0 and 1 are right; the second: 2, 0, 1; the third: 2, 0, 1, only 2 is
    assert values["text to image"].per_query.values["map@r"].tolist() == [0.5, 0.25, 1.0]
    # image 0: texts 0, 2, 1, of which 0 and 1 are right; image 1: 1, 2, 0; image 2: 2, 1, 0, of which 2 is right
    assert values["image to text"].per_query.values["map@r"].tolist() == [0.5, 0.5, 1.0]


@pytest.mark.slow
def test_a_run_with_captions_that_is_interrupted_resumes_to_the_same_bits(tmp_path, monkeypatch, encoder):
    without_outputs(monkeypatch)
    options = {**TINY, "steps": 4, "epochs": 2, "text_encoder": encoder, "tuning": "lora"}
    whole = training.train(captioned(), tmp_path / "whole", verbose=0, **options)
    with monkeypatch.context() as patch:
        patch.setattr(module, "print_line", stops_at(2))
        cut = training.train(captioned(), tmp_path / "cut", **options)
    with pytest.raises(ValueError, match="a set that has changed"):
        training.train(labeled([4] * 10), cut.folder, resume=True, verbose=0)
    training.train(captioned(), cut.folder, resume=True, verbose=0)
    models = [keras.saving.load_model(run.folder / "state" / "training.keras") for run in (whole, cut)]
    for ours, theirs in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_with_captions_is_searched_by_words_and_only_with_its_own_text_model(tmp_path, encoder, capsys):
    images, lines = captioned(), ["path,caption"]
    for row, (pixels, label) in enumerate(zip(images.images, images.labels, strict=True)):
        path = tmp_path / "photos" / str(label) / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(pixels).numpy())
        lines += [f"{path.relative_to(tmp_path)},{caption}" for caption in images.captions[row]]
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    run, options = tmp_path / "run", {**TINY, "steps": 4, "epochs": 2, "text_encoder": encoder}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    words = ["train", str(tmp_path / "photos"), "--captions", str(tmp_path / "captions.csv"), "--out", str(run)]
    assert cli.main([*words, "--json", *options]) == 0
    record = json.loads(capsys.readouterr().out)
    assert list(record["metrics"]) == ["trained", "frozen", "text to image", "image to text"]
    assert record["settings"]["loss"] == "clip"
    assert "Image to text, in %: Recall@1" in (run / "README.md").read_text()
    assert [row.split(",")[0] for row in (run / "history.csv").read_text().splitlines()] == ["epoch", "1", "2"]

    texts, index = tfdml.models.TextModel.load(run / "text"), tfdml.search.load(run / "index")
    assert texts.fingerprint == index.fingerprint
    words = ["search", str(run), str(run / "index"), "-k", "2", "--text", "thing 3", "thing 4"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["text"] for each in found] == ["thing 3", "thing 4"]
    ids, _ = index.search(texts(["thing 3", "thing 4"]), 2)
    assert [[neighbor["id"] for neighbor in each["neighbors"]] for each in found] == ids.tolist()

    texts.fingerprint = "0" * 64
    texts.save(run / "text")
    assert (cli.main(words), "Received texts of model 000000000000" in capsys.readouterr().err) == (2, True)
    shutil.rmtree(run / "text")
    assert (cli.main(words), "a model without a text model" in capsys.readouterr().err) == (2, True)
    assert cli.main([*words, "--box", "0", "0", "8", "8"]) == 2
    assert "Received a box in a text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (captioned(), {}, "a set with captions, text_encoder='none' and loss='clip', expected --captions"),
        (labeled([4] * 10), {"text_encoder": "bert"}, "no captions, text_encoder='bert' and loss=None, expected"),
        (captioned(), {"text_encoder": "bert", "loss": "triplet"}, "loss='triplet', expected"),
        (labeled([4] * 10), {"loss": "clip"}, "no captions, text_encoder='none' and loss='clip'"),
        (captioned(), {"text_encoder": "gone"}, "'gone', expected the folder of a BERT"),
        (with_captions(labeled([4] * 10), 40 * ["a"]), {"text_encoder": "gone"}, "join all images of a part into one"),
    ],
)
def test_captions_an_encoder_and_their_loss_come_together(tmp_path, data, options, message):
    with pytest.raises(ValueError, match=message):
        training.train(data, tmp_path / "run", verbose=0, **{**TINY, **options})
    assert not (tmp_path / "run").exists()
