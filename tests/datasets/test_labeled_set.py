"""A labeled set goes into samplers, callbacks and models as it is, whatever its examples come from."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.datasets.conftest import decode
from tfdml import callbacks, models, samplers
from tfdml.datasets import LabeledSet, PairList, Preprocessing

LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 2])
NAMES = ("ant", "bee", "cat")
IMAGES = np.random.default_rng(0).integers(0, 256, (10, 4, 4, 3), np.uint8)


class ManySource(list):
    """Records that are read in batches."""

    def __getitems__(self, rows):
        return [self[row] for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for row, image in enumerate(IMAGES):
        (folder / f"{row}.png").write_bytes(tf.io.encode_png(image).numpy())
    return folder


@pytest.fixture(params=["files", "array", "memory map", "source", "source of many", "array and load"])
def data(request, folder):
    """The same ten images in every form."""
    paths = np.array([str(folder / f"{row}.png") for row in range(10)])
    np.save(folder / "images.npy", IMAGES)
    examples = {
        "files": {"paths": paths, "load": decode},
        "array": {"images": IMAGES},
        "memory map": {"images": np.load(folder / "images.npy", mmap_mode="r")},
        "source": {"source": list(IMAGES)},
        "source of many": {"source": ManySource(IMAGES)},
        "array and load": {"images": 255 - IMAGES, "load": lambda image: 255 - image},
    }
    return LabeledSet(labels=LABELS, class_names=NAMES, **examples[request.param])


def model_of_pixels():
    inputs = keras.Input((4, 4, 3))
    outputs = keras.layers.Dense(48, kernel_initializer="identity")(keras.layers.Flatten()(inputs))
    return models.EmbeddingModel(inputs, outputs)


def test_examples_come_in_order(data):
    np.testing.assert_array_equal(data.examples(), IMAGES)
    np.testing.assert_array_equal(data.take([7, 2, 2]).examples(), IMAGES[[7, 2, 2]])


def test_batches_end_and_the_last_may_be_shorter(data):
    batches = list(data.batches(4))
    assert int(data.batches(4).cardinality()) == len(batches) == 3
    assert [len(labels) for _, labels in batches] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([x for x, _ in batches]), IMAGES)
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in batches]), LABELS)
    assert [len(labels) for _, labels in data.batches(5)] == [5, 5]


def test_a_sampler_takes_a_set_as_it_is(data):
    sampler = samplers.GroupSampler(classes_per_batch=2, examples_per_class=3)
    expected = next(iter(sampler.batches(IMAGES, LABELS)))
    for found, known in zip(next(iter(sampler.batches(data))), expected, strict=True):
        np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("data", ["files", "array"], indirect=True)
def test_a_model_embeds_a_set_in_order(data):
    np.testing.assert_array_equal(models.embed(model_of_pixels(), data, batch_size=3), IMAGES.reshape(10, -1))


def test_boxes_reach_a_load_that_takes_them():
    def corner(key):
        image, box = key
        return image[: int(box[3]), : int(box[2])]

    corner.boxes = True
    boxes = np.tile([0.0, 0.0, 2.0, 3.0], (10, 1))
    part = LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES, boxes=boxes, load=corner)
    np.testing.assert_array_equal(part.take([4, 1]).examples(), IMAGES[[4, 1], :3, :2])


def test_a_part_keeps_its_columns_and_loses_its_protocol():
    part = LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES, groups=np.arange(10), protocol="animals/v1")
    some = part.take(LABELS == 2).take(slice(0, None, 2))
    np.testing.assert_array_equal(some.groups, [2, 8])
    np.testing.assert_array_equal(some.labels, [2, 2])
    assert (some.protocol, some.class_names) == (None, NAMES)


def test_classes_are_taken_by_name_or_number_and_numbered_again():
    part = LabeledSet(source=list(IMAGES), labels=LABELS, class_names=NAMES)
    for chosen in (part.select_classes(["cat", "ant"]), part.select_classes([0, 2])):
        assert chosen.class_names == ("ant", "cat")
        np.testing.assert_array_equal(chosen.labels, [0, 1, 0, 1, 0, 1, 1])
        np.testing.assert_array_equal(chosen.take([1]).examples(), IMAGES[[2]])
    for unknown in ("dog", 3, -1, 0.5):
        with pytest.raises(ValueError, match="Received the class"):
            part.select_classes(unknown)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no examples, expected paths, images or a source"),
        ({"images": IMAGES, "source": list(IMAGES)}, "images and source, expected"),
        ({"images": IMAGES[:9]}, "9 images and 10 labels"),
        ({"images": IMAGES, "groups": np.arange(3)}, "3 groups and 10 labels"),
        ({"images": IMAGES, "labels": LABELS + 1}, "labels from 1 to 3 and 3 class names"),
        ({"images": IMAGES, "labels": LABELS * 0.5}, "labels of dtype float64"),
        ({"paths": np.array(["a.png"] * 10)}, "paths without load"),
        ({"images": IMAGES, "load": Preprocessing(size=4, boxes=True)}, "takes boxes, and no boxes"),
        (
            {"source": list(IMAGES), "boxes": np.ones((10, 4)), "load": Preprocessing(size=4, boxes=True)},
            "takes boxes, and a source",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LabeledSet(**{"labels": LABELS, "class_names": NAMES, **options})


def test_a_set_without_examples_is_refused_where_examples_are_needed():
    empty = LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES).take([])
    assert len(empty) == 0
    with pytest.raises(ValueError, match="set without examples"):
        empty.batches()
    with pytest.raises(ValueError, match="set without examples"):
        models.embed(model_of_pixels(), empty)


@pytest.mark.parametrize(
    "make",
    [
        lambda: samplers.GroupSampler(classes_per_batch=2, examples_per_class=2).batches(IMAGES),
        lambda: callbacks.PairDiagnostics(IMAGES, path="logs"),
    ],
)
def test_arrays_without_labels_are_refused(make):
    with pytest.raises(ValueError, match="data of type ndarray without labels, expected a labeled set"):
        make()


@pytest.mark.parametrize("name", ["paths", "class_names"])
def test_a_path_or_a_class_name_that_is_not_utf8_is_named(name):
    columns = {"paths": np.array(["a.png", "b.png"]), "class_names": ("ant", "bee")}
    columns[name] = np.array(["a.png", "caf\udce9"])
    with pytest.raises(ValueError, match=rf"Received {name} with 'caf.udce9', expected names in UTF-8\. Rename it"):
        LabeledSet(labels=[0, 1], load=Preprocessing(size=4), **columns)


def test_sets_and_pairs_are_printed_in_one_line():
    data = LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES, protocol="ants/v1")
    assert repr(data) == "<LabeledSet: 10 examples of 3 classes, protocol ants/v1>"
    assert repr(data.take([0, 1])) == "<LabeledSet: 2 examples of 3 classes>"
    pairs = PairList(None, np.arange(4), np.arange(4), np.array([True, False, True, True]), np.array([0, 0, 1, 1]))
    assert repr(pairs) == "<PairList: 4 pairs in 2 folds, 3 of which match>"
    assert {kind.__repr__ for kind in LabeledSet.__subclasses__()} == {LabeledSet.__repr__}


def test_examples_without_a_label_are_in_no_class():
    data = LabeledSet(images=np.arange(6)[:, None], labels=np.array([0, -1, 1, 1, 0, -1]), class_names=("a", "b"))
    assert repr(data) == "<LabeledSet: 6 examples of 2 classes, 2 without a label>"
    assert data.labeled.images.ravel().tolist() == [0, 2, 3, 4]
    assert data.labeled.labeled is not None
    described = data.describe()
    assert (described.class_sizes.tolist(), described.unlabeled, described.examples) == ([2, 2], 2, 6)
    assert data.select_classes("b").labels.tolist() == [0, 0]
    with pytest.warns(UserWarning, match="6 examples, 2 without a label: parts of a set leave these out"):
        train, validation = data.split(0.5, by="class")
    assert sorted(np.concatenate([train.images, validation.images]).ravel().tolist()) == [0, 2, 3, 4]
    with pytest.raises(ValueError, match=r"labels from -2 to 0 .* or -1 for no label"):
        LabeledSet(images=np.zeros(2), labels=np.array([-2, 0]), class_names=("a",))
