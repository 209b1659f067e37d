"""Caches of loaded examples, and arrays on disk."""

import os
import shutil
import tracemalloc
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tfdml import datasets, samplers
from tfdml.datasets import LabeledSet

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 6, 5, 3), np.uint8)
LABELS = np.repeat(np.arange(4), 3)
NAMES = tuple("abcd")


@dataclass(frozen=True)
class Crop:
    """Preprocessing with a setting."""

    size: int = 4
    boxes: bool = False

    def __call__(self, key):
        path = key[0] if self.boxes else key
        return tf.io.decode_png(tf.io.read_file(path))[: self.size, : self.size]


@pytest.fixture
def files(tmp_path):
    paths = [str(tmp_path / f"{row}.png") for row in range(12)]
    for path, image in zip(paths, IMAGES, strict=True):
        tf.io.write_file(path, tf.io.encode_png(image))
    return LabeledSet(
        paths=np.array(paths), labels=LABELS, class_names=NAMES, groups=np.arange(12), load=Crop(), protocol="letters"
    )


def test_a_cached_set_has_the_same_examples_and_reads_no_image_file(files, tmp_path):
    cached = files.cached(tmp_path / "cache")
    assert isinstance(cached.images, np.memmap)
    assert cached.images.dtype == np.uint8
    assert (tmp_path / "cache/images.npy").stat().st_size == 12 * 4 * 4 * 3 + 128  # and the header
    for path in files.paths:
        os.remove(path)
    np.testing.assert_array_equal(cached.examples(), IMAGES[:, :4, :4])
    np.testing.assert_array_equal(np.concatenate([x for x, _ in cached.batches(5)]), IMAGES[:, :4, :4])
    assert (cached.paths, cached.load, cached.protocol, cached.class_names) == (None, None, "letters", NAMES)
    np.testing.assert_array_equal(cached.groups, np.arange(12))


def test_a_cache_is_written_once_also_by_another_load(files, tmp_path):
    times = []
    for _ in range(2):
        cached = files.cached(str(tmp_path / "cache"), load=Crop(5))
        np.testing.assert_array_equal(cached.examples(), IMAGES[:, :5, :5])
        times.append((tmp_path / "cache/images.npy").stat().st_mtime_ns)
    assert times[0] == times[1]


def changed_file(files):
    tf.io.write_file(str(files.paths[1]), tf.io.encode_png(255 - IMAGES[1]))
    return files, np.concatenate([IMAGES[:1], 255 - IMAGES[1:2], IMAGES[2:]])[:, :4, :4]


def changed_function(files):
    """Two functions of one name."""
    return replace(files, load=lambda path: 255 - Crop()(path)), 255 - IMAGES[:, :4, :4]


STALE = {
    "a file": changed_file,
    "a setting": lambda files: (replace(files, load=Crop(3)), IMAGES[:, :3, :3]),
    "a function": changed_function,
    "the rows": lambda files: (files.take([3, 2]), IMAGES[[3, 2], :4, :4]),
    "the boxes": lambda files: (replace(files, load=Crop(4, True), boxes=np.ones((12, 4))), IMAGES[:, :4, :4]),
}


@pytest.mark.parametrize("change", STALE)
def test_a_stale_cache_is_replaced_with_a_warning(change, files, tmp_path):
    first = replace(files, load=lambda path: Crop()(path)) if change == "a function" else files
    if change == "the boxes":
        first = replace(files, load=Crop(4, True), boxes=np.zeros((12, 4)))
    old = first.cached(tmp_path / "cache")
    second, expected = STALE[change](files)
    with pytest.warns(UserWarning, match="was written for other files, or by another load. It is replaced.") as warned:
        new = second.cached(tmp_path / "cache")
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(new.examples(), expected)
    np.testing.assert_array_equal(old.examples(), IMAGES[:, :4, :4])


@pytest.mark.parametrize("name", ["images.npy", "cache.json", "SHA256SUMS"])
def test_a_damaged_cache_is_written_again_with_a_warning(name, tmp_path):
    part = LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES)
    part.cached(tmp_path / "cache")
    os.truncate(tmp_path / "cache" / name, 5)
    with pytest.warns(UserWarning, match=r"cache is damaged \(.*(npy|json|SUMS).*\)\. It is replaced\.") as warned:
        cached = part.cached(tmp_path / "cache")
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(cached.examples(), IMAGES)
    part.cached(tmp_path / "cache")  # without a warning


@pytest.mark.parametrize("foreign", [("cache.json",), ("images.npy",), ("cache.json", "images.npy", "notes.txt")])
def test_files_that_are_not_those_of_a_cache_are_left_alone(foreign, files, tmp_path):
    (tmp_path / "mine").mkdir()
    for name in foreign:
        (tmp_path / "mine" / name).write_text(name)
    with pytest.raises(FileExistsError, match=f"a folder with '{foreign[-1]}', .* expected a new or empty folder"):
        files.cached(tmp_path / "mine")
    assert {path.name: path.read_text() for path in (tmp_path / "mine").iterdir()} == {name: name for name in foreign}


def test_a_file_is_left_alone_and_an_empty_folder_is_used(files, tmp_path):
    with pytest.raises(FileExistsError, match="which is a file, expected the name of a folder"):
        files.cached(files.paths[0])
    assert len(list(tmp_path.iterdir())) == 12
    (tmp_path / "empty").mkdir()
    assert len(files.cached(tmp_path / "empty")) == 12


def test_a_failure_leaves_no_cache(files, tmp_path):
    (tmp_path / "7.png").write_bytes(b"no image")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"row 7 \(label 2, key .*7\.png"):
        files.cached(tmp_path / "cache")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".png") == []
    os.remove(tmp_path / "7.png")
    with pytest.raises(FileNotFoundError, match=r"7\.png"):
        files.cached(tmp_path / "cache")


@pytest.mark.parametrize(
    ("load", "message"), [(lambda path: path, "examples of type object"), (lambda path: (0, 1), "examples of type tup")]
)
def test_examples_that_are_not_arrays_of_numbers_are_refused(load, message, files, tmp_path):
    with pytest.raises(ValueError, match=message):
        replace(files, load=load).cached(tmp_path / "cache")


def test_a_full_disk_is_named_before_anything_is_written(files, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(OSError, match=r"0.0 GiB of free space for a cache, expected 0.0 GiB. Make room"):
        files.cached(tmp_path / "cache")


def test_a_cache_of_an_array_that_changed_is_replaced(tmp_path):
    part = LabeledSet(images=IMAGES.copy(), labels=LABELS, class_names=NAMES)
    part.cached(tmp_path / "cache")
    part.images[5, 2, 1] = 99  # a row that is not among those that are compared
    with pytest.warns(UserWarning, match="was written for other files"):
        np.testing.assert_array_equal(part.cached(tmp_path / "cache").examples(), part.images)


def test_a_source_counts_by_what_it_says_of_itself():
    class Source:
        version = 1

        def __len__(self):
            return 12

        def __getitem__(self, row):
            return IMAGES[row]

        def fingerprint(self, portable):
            return f"version {self.version}"

    part = LabeledSet(source=Source(), labels=LABELS, class_names=NAMES)
    before = part.fingerprint()
    Source.version = 2
    assert part.fingerprint() != before


@pytest.fixture
def mapped(tmp_path):
    """A set on disk, and a subset of it as arrays."""
    np.save(tmp_path / "images.npy", IMAGES)
    on_disk = LabeledSet(images=np.load(tmp_path / "images.npy", mmap_mode="r"), labels=LABELS, class_names=NAMES)
    return on_disk, LabeledSet(images=IMAGES, labels=LABELS, class_names=NAMES)


@pytest.mark.parametrize(
    ("rows", "load"),
    [(slice(None), None), ([11, 0, 1, 2, 4, 5, 9, 10], lambda image: 255 - image)],
    ids=["all as they are", "some by load"],
)
def test_a_sampler_draws_the_same_from_disk_as_from_memory(rows, load, mapped):
    sampler = samplers.GroupSampler(classes_per_batch=2, examples_per_class=2, seed=0)
    on_disk, in_memory = (sampler.batches(replace(part.take(rows), load=load)).take(70) for part in mapped)
    assert on_disk.element_spec == in_memory.element_spec
    for (found, _), (expected, _) in zip(on_disk, in_memory, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_tuple_or_dict_may_have_parts_on_disk(mapped):
    on_disk, in_memory = (part.images for part in mapped)
    sampler = samplers.UniformSampler(batch_size=3)
    for first, second in (((on_disk, LABELS), (in_memory, LABELS)), ({"a": on_disk}, {"a": in_memory})):
        found, expected = (next(iter(sampler.batches(data, LABELS)))[0] for data in (first, second))
        tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


def test_an_array_has_one_fingerprint_on_disk_and_in_memory(mapped):
    rows = [11, 0, 5]
    assert mapped[0].fingerprint() == mapped[1].fingerprint()
    whole = mapped[0].take(rows).fingerprint()
    assert whole == mapped[1].take(rows).fingerprint() != mapped[0].fingerprint()


def test_subsets_on_disk_stay_there(mapped):
    part = mapped[0].take([3, 1, 8]).take([2, 0])
    assert part.images.shape == (2, 6, 5, 3)
    assert (part.images.dtype, part.images.ndim) == (np.uint8, 4)
    np.testing.assert_array_equal(part.images[0], IMAGES[8])
    np.testing.assert_array_equal(part.examples(), IMAGES[[8, 3]])
    train, validation = mapped[0].split(0.5)
    np.testing.assert_array_equal(train.images[:1], train.take([0]).examples())
    assert validation.images.array is mapped[0].images


def test_a_set_that_is_larger_than_the_memory_used_is_read_in_order(tmp_path):
    shape = (64, 256, 256, 3)  # 12 MiB, in batches of 400 KiB
    images = np.lib.format.open_memmap(tmp_path / "images.npy", "w+", np.uint8, shape)
    part = LabeledSet(images=images, labels=np.zeros(64, int), class_names=("a",))
    tracemalloc.start()
    assert sum(int(tf.reduce_max(labels)) for _, labels in part.take(np.arange(64)).batches(2)) == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 2**20


def test_nan_on_disk_is_found_when_its_batch_is_read(tmp_path):
    values = np.zeros((12, 2), np.float32)
    values[7, 1] = np.nan
    np.save(tmp_path / "values.npy", values)
    part = LabeledSet(images=np.load(tmp_path / "values.npy", mmap_mode="r"), labels=LABELS, class_names=NAMES)
    batches = iter(part.batches(6))
    np.testing.assert_array_equal(next(batches)[0], values[:6])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Received NaN in the data, first in row 7, expected"):
        next(batches)


def test_a_map_of_another_length_is_refused(mapped):
    with pytest.raises(ValueError, match=r"data of shape \(12, 6, 5, 3\) and 3 labels"):
        samplers.UniformSampler(batch_size=3).batches(mapped[0].images, LABELS[:3])


def test_a_portable_fingerprint_is_the_one_of_a_copy(tmp_path):
    for name in ("ant/1.png", "ant/2.png", "bee/1.png"):
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_bytes(b"12")
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(tmp_path / "here", tmp_path / "elsewhere" / "photos", copy_function=shutil.copyfile)
    photos, copies = datasets.folder(tmp_path / "here"), datasets.folder(tmp_path / "elsewhere" / "photos")
    assert photos.fingerprint(portable=True) == copies.fingerprint(portable=True)
    assert photos.fingerprint() != copies.fingerprint()
    (tmp_path / "elsewhere" / "photos" / "bee" / "1.png").write_bytes(b"123")
    assert photos.fingerprint(portable=True) != copies.fingerprint(portable=True)
    (tmp_path / "here" / "bee" / "1.png").rename(tmp_path / "here" / "bee" / "2.png")
    renamed = datasets.folder(tmp_path / "here")
    assert renamed.fingerprint(portable=True) not in (photos.fingerprint(portable=True), copies.fingerprint())
    assert renamed.take([0]).fingerprint(portable=True) != renamed.take([]).fingerprint(portable=True)
