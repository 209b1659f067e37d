"""Where TensorFlow is not installed: the same pixels, and one sentence of each call that needs it."""

import keras
import numpy as np
import pytest

from tests.programs import result_of
from tfdml import datasets, samplers
from tfdml.datasets.images.reasons import BROKEN


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_folder_of_images_is_read_and_a_model_trained_measured_and_searched(backend, tmp_path):
    found = result_of("without_tensorflow", tmp_path, backend=backend)
    assert (found["backend"], found["has TensorFlow"]) == (backend, False)
    assert found["problems"] == found["skipped"] == [BROKEN]
    assert len(found["recall"]) == 2
    assert found["pairs"] == 1
    data = datasets.folder(tmp_path / "photos", load=datasets.Preprocessing(size=12))
    usable = [row for row, path in enumerate(data.paths) if not path.endswith("cut.jpg")]
    np.testing.assert_array_equal(found["pixels"], data.take(usable).examples())
    sampler = samplers.GroupSampler(classes_per_batch=2, examples_per_class=3, seed=4)
    crop = datasets.compose(datasets.RandomCrop(10), datasets.RandomResizedCrop(8))
    batches = sampler.batches(data.take(usable), augment=crop, start=70)
    np.testing.assert_array_equal(found["batch"], next(iter(batches))[0])
    batches = sampler.batches(data.take(usable))
    pairs = next(iter(samplers.input_pairs(batches.skip(3), pairs_per_batch=5, start=3)))
    for one, other in zip(found["input pairs"], keras.tree.flatten(pairs), strict=True):
        np.testing.assert_array_equal(one, other)
    images = next(iter(batches))[0]
    np.testing.assert_array_equal(found["turned"], datasets.rotated_classes(images, (0, 1), examples_per_class=3))
    assert found["refused"].pop("SavedModel").startswith(f"RuntimeError: Received a model on the '{backend}' backend")
    for name, text in found["refused"].items():
        assert text == f"ImportError: {name} needs tensorflow: pip install tfdml[tensorflow]."
