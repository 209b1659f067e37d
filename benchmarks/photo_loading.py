"""Images per second from JPEG photos, read, decoded, resized to 256 and cropped to 224, against `tf.data` alone.

Batches of 64 from files of 256 x 192 and 192 x 256 in the cache of the file system. Each way of tfdml has a pipeline
beside it that gives the same pixels, `shuffle().map().batch().prefetch()` over `decode_jpeg` and `tf.image.resize`; it
neither checks files nor reads their orientation. Passes take turns; `over_tf_data` is the median over the rounds of the
quotient of two passes that follow one another, so that the load of the machine divides out.

    python benchmarks/photo_loading.py            # four minutes on two cores
    python benchmarks/photo_loading.py --quick    # a few files, one way
"""

import statistics
import struct
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
import tensorflow as tf
from _report import options_of, write_table
from loading import rate

from tfdml.datasets import Preprocessing, RandomCrop
from tfdml.samplers import GroupSampler

LONG, SHORT, RESIZE, SIZE = 256, 192, 256, 224
PREFETCH = 4  # batches, as `Sampler.batches` has by default
SAMPLER = GroupSampler(classes_per_batch=16, examples_per_class=4)
STRETCH = Preprocessing(size=SIZE, resize=RESIZE)
PAD = Preprocessing(size=SIZE, resize=RESIZE, fit="pad")
ORIENTATION = struct.pack("<HHIHHI", 0x0112, 3, 1, 1, 0, 0)  # upright
EXIF = b"\xff\xe1\x00\x22Exif\x00\x00" + b"II*\x00" + struct.pack("<IH", 8, 1) + ORIENTATION
FULL = {"files": 600, "steps": 20, "rounds": 9, "ways": 5}
QUICK = {"files": 80, "steps": 2, "rounds": 1, "ways": 1}


def make_files(folder, files):
    """Paths of JPEG files of smooth structure with noise, and of the same files with an Exif block."""
    rng = np.random.default_rng(0)
    (folder / "exif").mkdir()
    for number in range(files):
        shape = (SHORT, LONG) if number % 2 else (LONG, SHORT)
        smooth = tf.image.resize(rng.integers(0, 256, (8, 8, 3), np.uint8), shape, method="bicubic").numpy()
        pixels = (smooth + rng.normal(0, 6, smooth.shape)).clip(0, 255).astype("uint8")
        content = tf.io.encode_jpeg(pixels, quality=90).numpy()
        (folder / f"{number}.jpg").write_bytes(content)
        (folder / "exif" / f"{number}.jpg").write_bytes(content[:2] + EXIF + content[2:])
    names = [f"{number}.jpg" for number in range(files)]
    return [str(folder / name) for name in names], [str(folder / "exif" / name) for name in names]


def stretched(path, side):
    """Decoded, and resized to a square."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(image, (side, side), antialias=True)


def padded(path):
    """Decoded, and resized with padding to a square."""
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize_with_pad(image, RESIZE, RESIZE, antialias=True)


def center(pixels):
    """The center crop as uint8."""
    first = (RESIZE - SIZE) // 2
    return as_uint8(pixels[first : first + SIZE, first : first + SIZE])


def as_uint8(pixels):
    """Rounded."""
    return tf.cast(tf.round(pixels), tf.uint8)


def random_crop(path):
    """A random crop, mirrored at random."""
    return tf.image.random_flip_left_right(tf.image.random_crop(as_uint8(stretched(path, RESIZE)), (SIZE, SIZE, 3)))


def plain(paths, labels, load):
    """The pipeline of `tf.data` alone."""
    data = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths)).repeat()
    data = data.map(lambda path, label: (load(path), label), num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(SAMPLER.batch_size).prefetch(PREFETCH)


def ways(paths, with_exif, labels):
    """name -> function that makes endless datasets, of tfdml and of `tf.data` alone."""
    ours = SAMPLER.batches
    cropped = {"load": STRETCH.uncropped, "augment": RandomCrop(SIZE)}
    return {
        "resize to 256, center 224": lambda: (
            ours(paths, labels, load=STRETCH),
            plain(paths, labels, lambda path: center(stretched(path, RESIZE))),
        ),
        "pad to 256, center 224": lambda: (
            ours(paths, labels, load=PAD),
            plain(paths, labels, lambda path: center(padded(path))),
        ),
        "resize to 256, random 224, mirror": lambda: (
            ours(paths, labels, **cropped),
            plain(paths, labels, random_crop),
        ),
        "resize to 224": lambda: (
            ours(paths, labels, load=Preprocessing(size=SIZE)),
            plain(paths, labels, lambda path: as_uint8(stretched(path, SIZE))),
        ),
        "with Exif: resize to 256, center 224": lambda: (
            ours(with_exif, labels, load=STRETCH),
            plain(with_exif, labels, lambda path: center(stretched(path, RESIZE))),
        ),
    }


def check_same_pixels(path):
    """Raise an error unless both ways give the same pixels, up to rounding."""
    for view, load in ((STRETCH, lambda path: stretched(path, RESIZE)), (PAD, padded)):
        np.testing.assert_allclose(view(path).numpy().astype(int), center(load(path)).numpy().astype(int), atol=1)


def measure(pair, *, steps, rounds):
    """Images per second of tfdml, and their quotient by those of `tf.data` alone: medians over the rounds."""
    ours, plain = map(iter, pair())
    rates = [[rate(stream, steps, 2 * PREFETCH) for stream in (ours, plain)] for _ in range(rounds + 1)][1:]
    return {
        "images_per_second": statistics.median(ours for ours, _ in rates),
        "over_tf_data": statistics.median(ours / plain for ours, plain in rates),
    }


def main():
    """Write the files, measure every way and write the table."""
    options = options_of(__doc__, "photo_loading.csv")
    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        paths, with_exif = make_files(Path(folder), size["files"])
        check_same_pixels(paths[0])
        pairs = islice(ways(paths, with_exif, np.arange(size["files"]) % (size["files"] // 4)).items(), size["ways"])
        rows = [{"way": way, **measure(pair, steps=size["steps"], rounds=size["rounds"])} for way, pair in pairs]
    write_table(options.output, rows)


if __name__ == "__main__":
    main()
