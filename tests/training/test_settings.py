"""Settings of a training run: their file, their reasons, and what is refused."""

import re
from dataclasses import asdict

import pytest

from tfdml.training.recommended import recommended, recommended_steps, values_of
from tfdml.training.settings import SPLIT, TRAINING, Facts, TrainingSettings
from tfdml.training.settings_file import FILE, read_record, read_settings, require_options, write_settings


def settings(**options):
    facts = Facts(images=300, classes=20, device="cpu")
    chosen = recommended(SPLIT, facts, {}) | recommended(TRAINING, facts, {"backbone": "EfficientNetLite0"})
    return TrainingSettings(**{**values_of(chosen), "steps": 100, "epochs": 8, **options})


def test_a_file_has_the_settings_and_their_reasons(tmp_path):
    written = settings(learning_rate=1e-05, weights='a "quoted" \\ path.h5\n', mirror=False)
    write_settings(tmp_path / FILE, written, {"size": "a third"}, "abc")
    assert re.search(r"^size = 128 +# a third$", (tmp_path / FILE).read_text(), flags=re.MULTILINE)
    assert read_settings(tmp_path / FILE) == asdict(written)
    assert read_record(tmp_path / FILE)["fingerprint"] == "abc"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size = 128", "format=None, expected format = 'tfdml.training/1'"),
        ('format = "tfdml.training/2"\nsize = 128', "format='tfdml.training/2'"),
        ('format = "tfdml.training/1"\nlearning_rat = 1.0', "the setting 'learning_rat', expected 'learning_rate', or"),
        ('format = "tfdml.training/1"\nsize = "128"', "size='128', expected a whole number of at least 16"),
        ('format = "tfdml.training/1"\nmirror = 1', "mirror=1, expected a bool"),
        ("size = ", "Invalid value"),
        ("\udcff", "codec"),
    ],
)
def test_a_file_of_another_form_is_an_error_that_names_it(tmp_path, text, message):
    (tmp_path / FILE).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"settings\.toml") as error:
        read_settings(tmp_path / FILE)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"los": "triplet"}, "'loss', or one of"),
        ({"loss": "hinge"}, "loss='hinge', expected one of 'multi-similarity'"),
        ({"size": 8}, "at least 16"),
        ({"size": True}, "size=True"),
        ({"validation": 0.0}, "validation=0.0, expected a fraction above 0"),
        ({"validation": "half"}, "validation='half', expected a fraction"),
        ({"test": 1.0}, "test=1.0, expected a fraction of at least 0 and below 1"),
        ({"validation": 0.5, "test": 0.5}, "add up to 1"),
        ({"learning_rate": float("inf")}, "a finite number"),
        ({"learning_rate": float("nan")}, "a finite number above 0"),
        ({"classes_per_batch": 1}, "at least 2"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"backbone": ""}, "backbone=''"),
    ],
)
def test_values_out_of_range_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        require_options(options)


def test_few_classes_are_split_by_image_and_a_small_set_has_no_test_part():
    few = recommended(SPLIT, Facts(images=100, classes=7, device="cpu"), {})
    many = recommended(SPLIT, Facts(images=500, classes=40, device="cpu"), {"validation": 0.3})
    assert (few["split_by"].value, few["test"].value) == ("image", 0.0)
    assert (many["split_by"].value, many["test"].value, many["validation"]) == ("class", 0.2, (0.3, "as given"))


def test_settings_follow_from_those_before_them_and_from_the_set():
    small, large = Facts(300, 5, "cpu"), Facts(30_000, 500, "gpu")
    random = recommended(TRAINING, small, {"backbone": "residual"})
    pretrained = recommended(TRAINING, small, {"backbone": "ResNet50"})
    on_gpu = recommended(TRAINING, large, {"backbone": "ResNet50"})
    values = [
        (each["weights"].value, each["tuning"].value, each["learning_rate"].value) for each in (random, pretrained)
    ]
    assert values == [("none", "all", 2e-3), ("imagenet", "all", 3e-4)]
    assert (random["classes_per_batch"].value, random["size"].value) == (5, 128)
    assert (on_gpu["classes_per_batch"].value, on_gpu["size"].value, on_gpu["tuning"].value) == (32, 224, "all")


def test_steps_follow_from_the_set_or_from_the_time():
    facts = Facts(images=640, classes=20, device="cpu")
    by_set = recommended_steps(facts, {}, batch_size=64, step_seconds=0.1, max_minutes=6)
    by_time = recommended_steps(facts, {"epochs": 3}, batch_size=64, step_seconds=2.0, max_minutes=6)
    assert by_set["steps"] == (400, "40 passes over the training images, 0.1 s a batch")
    assert by_time["steps"] == (180, "6 minutes at 2 s a batch: 18.0 passes over the training images")
    assert (by_set["epochs"].value, by_time["epochs"]) == (10, (3, "as given"))
    options = {"batch_size": 64, "step_seconds": 2.0, "max_minutes": 3}
    slow = recommended_steps(facts, {}, **options, evaluation_seconds=20)  # of 180 seconds, 160 are left
    assert (slow["epochs"].value, slow["steps"].value) == (4, 40)
    assert recommended_steps(facts, {}, **options, evaluation_seconds=200)["epochs"].value == 1
    without = {"unlabeled": True}
    assert recommended_steps(facts, without, batch_size=64, step_seconds=0.1, max_minutes=6)["steps"].value == 60
    many = Facts(images=6_400, classes=6_400, device="cpu")
    assert recommended_steps(many, without, batch_size=64, step_seconds=0.1, max_minutes=6)["steps"].value == 600
    assert recommended_steps(facts, {"steps": 7}, batch_size=64, step_seconds=None, max_minutes=6)["steps"].value == 7


def test_an_epoch_is_an_equal_part_of_the_steps():
    assert settings().steps_per_epoch == 13
    assert settings().batch_size == 64
