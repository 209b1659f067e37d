"""Labeled sets from tensorflow-datasets."""

import numpy as np
import pytest
import tensorflow as tf

from tfdml import samplers
from tfdml.datasets import Preprocessing, tfds

library = pytest.importorskip("tensorflow_datasets")
mocking = pytest.importorskip("tensorflow_datasets.testing.mocking")
library.disable_progress_bar()

ANIMALS = ["bee", "ant", "cat"]
SHADES = np.arange(0, 240, 20)


class ShadesOfAnimals(library.core.GeneratorBasedBuilder):
    """Twelve images of one shade and different sizes."""

    VERSION = library.core.Version("1.0.0")
    code_path = None  # TFDS looks beside the code for checksums of downloads, of which there are none.

    def _info(self):
        features = {
            "image": library.features.Image(shape=(None, None, 3)),
            "label": library.features.ClassLabel(names=ANIMALS),
            "place": library.features.Text(),
            "year": np.int64,
            "weight": np.float32,
        }
        features = library.features.FeaturesDict(features)
        return library.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

    def _split_generators(self, _):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for row, shade in enumerate(SHADES):
            image = np.full((5 + row % 3, 4, 3), shade, np.uint8)
            place = ["wood", "field"][row % 2]
            yield row, {"image": image, "label": row % 2, "place": place, "year": 2000 + row % 4, "weight": 0.5}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Folders of the prepared set, by file format."""
    folders = {form: tmp_path_factory.mktemp(form) for form in ("array_record", "tfrecord")}
    for form, folder in folders.items():
        ShadesOfAnimals(data_dir=folder, file_format=form).download_and_prepare(
            download_config=library.download.DownloadConfig(try_download_gcs=False)
        )
    return folders


def shades(prepared, **options):
    return tfds("shades_of_animals", "train", data_dir=prepared["array_record"], **options)


@pytest.mark.slow
def test_a_prepared_set_is_read_by_random_access(prepared):
    part = shades(prepared, load=Preprocessing(size=3))
    assert part.class_names == tuple(ANIMALS)
    assert part.labels.tolist() == [0, 1] * 6
    np.testing.assert_array_equal(part.take([7, 2]).examples()[:, 1, 1, 0], SHADES[[7, 2]])
    sampler = samplers.GroupSampler(classes_per_batch=2, examples_per_class=2)
    images, labels = next(iter(sampler.batches(part)))
    np.testing.assert_array_equal(images[:, 0, 0, 0].numpy() // 20 % 2, labels)


def test_the_default_is_224_pixels_and_a_function_gets_the_content_of_a_file(prepared):
    assert shades(prepared).batches(4).element_spec[0].shape[1:] == (224, 224, 3)
    part = shades(prepared, load=lambda file: tf.io.decode_png(file)[:4])
    np.testing.assert_array_equal(part.take([5]).examples(), np.full((1, 4, 4, 3), 100))


@pytest.mark.parametrize(
    ("label", "names", "labels"),
    [("place", ("field", "wood"), [1, 0] * 6), ("year", ("2000", "2001", "2002", "2003"), [0, 1, 2, 3] * 3)],
)
def test_labels_may_be_text_or_numbers(label, names, labels, prepared):
    part = shades(prepared, label=label)
    assert part.class_names == names
    assert part.labels.tolist() == labels


def test_parts_of_splits_can_be_asked_for(prepared):
    part = tfds("shades_of_animals", "train[9:]", data_dir=prepared["array_record"])
    assert part.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "kind"}, r"label='kind' .*place \(Text\).*, expected the name of a class, text or whole"),
        ({"label": "weight"}, "labels of type float, expected classes, text"),
        ({"image": "place"}, r"image='place' .*expected the name of an image"),
    ],
)
def test_features_that_do_not_fit_are_refused(options, message, prepared):
    with pytest.raises(ValueError, match=message):
        shades(prepared, **options)


def test_files_without_random_access_are_refused(prepared):
    with pytest.raises(ValueError, match="without random access, expected ArrayRecord files"):
        tfds("shades_of_animals", "train", data_dir=prepared["tfrecord"])


@pytest.mark.slow
def test_sets_of_the_catalog_are_found_by_name(monkeypatch):
    # The mock calls this function without its first argument, self.
    monkeypatch.setattr(mocking, "_getitems", lambda rows, generator: [generator[row] for row in rows])
    with library.testing.mock_data(num_examples=8):
        part = tfds("mnist", "train", load=Preprocessing(size=28, channels=1))
        assert (len(part), part.class_names) == (8, tuple("0123456789"))
        assert part.take([1, 6]).examples().shape == (2, 28, 28, 1)
