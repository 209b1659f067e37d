"""Images per second from JPEG files, from a memory-mapped cache of them, and from ArrayRecord files.

All give the same batches: 64 images of 224 x 224, 16 classes with 4 images each, from photos of 256 x 256 that lie in
the cache of the file system: decoded from JPEG files and cropped by `Preprocessing`, the same from files inside
ArrayRecords through `tfdml.datasets.tfds`, and pixels from `set.cached(folder)`. Passes take turns, and the median
counts. `mib` is the size on disk of 1,000 images.

    python benchmarks/caches.py            # three minutes on two cores
    python benchmarks/caches.py --quick    # a few files
"""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from _report import folder_mib, options_of, write_table
from loading import measure

import tfdml
from tfdml.samplers import GroupSampler

SIDE = 256
FULL = {"files": 1_000, "classes": 50, "steps": 60, "rounds": 5}
QUICK = {"files": 80, "classes": 20, "steps": 20, "rounds": 1}


def write_photos(folder, files, classes):
    """JPEG files of smooth noise with some detail, about as large as photos of this size, in a folder per class."""
    rng = np.random.default_rng(0)
    for number in range(files):
        coarse = tf.image.resize(rng.uniform(0, 255, (16, 16, 3)), (SIDE, SIDE), "bicubic")
        pixels = tf.saturate_cast(coarse + rng.normal(0, 6, (SIDE, SIDE, 1)), tf.uint8)
        path = folder / f"{number % classes:03}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_jpeg(pixels, quality=90).numpy())


class Photos(tfds.core.GeneratorBasedBuilder):
    """The files of a folder as a data set of tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")
    code_path = None
    photos: tfdml.datasets.LabeledSet

    def _info(self):
        features = {
            "image": tfds.features.Image(encoding_format="jpeg"),
            "label": tfds.features.ClassLabel(names=self.photos.class_names),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, _):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for row, (path, label) in enumerate(zip(self.photos.paths, self.photos.labels, strict=True)):
            yield row, {"image": str(path), "label": int(label)}


def prepared(photos, folder, load):
    """The same photos in ArrayRecord files."""
    Photos.photos = photos
    Photos(data_dir=folder, file_format="array_record").download_and_prepare(
        download_config=tfds.download.DownloadConfig(try_download_gcs=False)
    )
    return tfdml.datasets.tfds("photos", "train", data_dir=folder, load=load)


def main():
    """Write the files, measure every way and write the table."""
    options = options_of(__doc__, "caches.csv")
    size = QUICK if options.quick else FULL
    tfds.disable_progress_bar()
    load = tfdml.datasets.Preprocessing(size=224, resize=SIDE, fit="pad")
    sampler = GroupSampler(classes_per_batch=16, examples_per_class=4, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        jpeg, records, cache = (Path(folder, name) for name in ("jpeg", "records", "cache"))
        write_photos(jpeg, size["files"], size["classes"])
        photos = tfdml.datasets.folder(jpeg, load=load)
        sets = {
            "JPEG files": photos,
            "ArrayRecord": prepared(photos, records, load),
            "memory-mapped cache": photos.cached(cache),
        }
        sizes = [folder_mib(jpeg), folder_mib(records, "*array_record*"), folder_mib(cache)]
        streams = {way: sampler.batches(part) for way, part in sets.items()}
        found = measure(streams, steps=size["steps"], rounds=size["rounds"])
    rows = [
        {"way": way, "images_per_second": rate, "over_jpeg": rate / found["JPEG files"], "mib": disk}
        for (way, rate), disk in zip(found.items(), sizes, strict=True)
    ]
    write_table(options.output, rows, "tensorflow-datasets", "array-record")


if __name__ == "__main__":
    main()
