"""Processor time of the two inverse DCTs for JPEG photos, and how far their pixels are from those of Pillow.

One thread decodes photos of 500 x 375 pixels (quality 90, 4:2:0) that lie in memory. `decode` is the decoder alone,
`Preprocessing` also checks the file and resizes it to 224 x 224. The ways take turns, photo by photo; processor time
of the process counts, so that other programs on the machine matter little.

    python benchmarks/jpeg_pixels.py            # a minute
    python benchmarks/jpeg_pixels.py --quick    # a few photos
"""

import io
import statistics

import numpy as np
import tensorflow as tf
from _report import options_of, timed, write_table
from PIL import Image

from tfdml.datasets import Preprocessing

HEIGHT, WIDTH, SIZE = 375, 500, 224
METHODS = {"accurate": "INTEGER_ACCURATE", "fast": "INTEGER_FAST"}


def photos(count):
    """The contents of JPEG files of smooth structure with noise."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
        smooth = np.asarray(coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
        file, pixels = io.BytesIO(), (smooth + rng.normal(0, 6, smooth.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(file, "JPEG", quality=90, subsampling="4:2:0")
        yield file.getvalue()


def by_pillow(content):
    """The pixels as Pillow decodes them."""
    return np.asarray(Image.open(io.BytesIO(content)))


def ways():
    """(name, inverse DCT) -> function of the content of a file."""
    decoders = {
        ("decode", name): lambda content, method=method: tf.io.decode_jpeg(content, channels=3, dct_method=method)
        for name, method in METHODS.items()
    }
    views = {
        ("Preprocessing", name): tf.function(Preprocessing(size=SIZE, inverse_dct=name).from_bytes) for name in METHODS
    }
    return {**decoders, **views, ("decode by Pillow", "accurate"): by_pillow}


def milliseconds(functions, contents, rounds):
    """Name -> median processor time of a call; the functions take turns."""
    tensors = [tf.constant(content) for content in contents]
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for content, tensor in zip(contents, tensors, strict=True):
            for name, function in functions.items():
                argument = content if function is by_pillow else tensor
                times[name].append(1000 * timed(lambda: function(argument))[2])  # noqa: B023
    return {name: statistics.median(found[len(contents) :] or found) for name, found in times.items()}


def differences(contents, method):
    """Mean and largest difference of the pixels from those of Pillow, in gray levels."""
    pixels = (tf.io.decode_jpeg(content, channels=3, dct_method=METHODS[method]).numpy() for content in contents)
    pairs = zip(pixels, map(by_pillow, contents), strict=True)
    errors = np.stack([np.abs(x.astype(int) - y) for x, y in pairs])
    return {"mean_difference": float(errors.mean()), "largest_difference": int(errors.max())}


def main():
    """Measure every way and write the table."""
    options = options_of(__doc__, "jpeg_pixels.csv")
    contents = list(photos(3 if options.quick else 60))
    ms = milliseconds(ways(), contents, 1 if options.quick else 15)
    rows = [
        {
            "way": f"{way}, {method}" if "Pillow" not in way else way,
            "ms": value,
            "over_fast": value / ms.get((way, "fast"), ms["decode", "fast"]),
            **differences(contents, method),
        }
        for (way, method), value in ms.items()
    ]
    write_table(options.output, rows, "pillow")


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    main()
