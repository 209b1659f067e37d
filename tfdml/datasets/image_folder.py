"""Image files in one folder a class."""

import pathlib

import numpy as np

from tfdml.datasets.records import LabelledFiles

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")  # what TensorFlow decodes


def folder(path):
    """Lists an image folder with one subfolder for each class.

    Classes and files are in sorted order; images may lie at any depth inside the folder of their class; hidden files
    and folders are skipped.

    Args:
        path: the folder.

    Returns:
        `LabelledFiles`.

    Raises:
        ValueError: the folder does not exist, has no subfolder, or some subfolders hold no image.
    """
    root = pathlib.Path(path)
    if not root.is_dir():
        raise ValueError(f"Received path={str(path)!r}, which is no folder. Expected one subfolder of images a class.")
    classes = sorted(child.name for child in root.iterdir() if child.is_dir() and not child.name.startswith("."))
    if not classes:
        raise ValueError(f"Received path={str(path)!r}, which has no subfolder. Expected one subfolder a class.")
    files = [_images(root / name) for name in classes]
    empty = [name for name, images in zip(classes, files, strict=True) if not images]
    if empty:
        raise ValueError(
            f"Received path={str(path)!r}, where these classes have no image ({', '.join(EXTENSIONS)}): "
            f"{', '.join(empty)}. Fill or remove their folders."
        )
    return LabelledFiles(
        paths=np.array([str(image) for images in files for image in images]),
        labels=np.repeat(np.arange(len(classes), dtype=np.int64), [len(images) for images in files]),
        class_names=tuple(classes),
    )


def _images(class_folder):
    files = sorted(file for file in class_folder.rglob("*") if file.suffix.lower() in EXTENSIONS and file.is_file())
    return [file for file in files if not any(part.startswith(".") for part in file.relative_to(class_folder).parts)]


def load_image(size, *, channels=3):
    """A function that loads one image file inside a `tf.data` graph, for `sampler.batches(paths, labels, load=...)`.

    The image is resized bilinearly with antialiasing, without regard to its aspect ratio; of an animation the first
    frame is taken.

    Args:
        size: side of the square result in pixels, or `(height, width)`.
        channels: 1 for grey, 3 for colour.

    Returns:
        function of a string tensor `()` that returns a uint8 tensor `(height, width, channels)`.

    Raises:
        ValueError: a size below 1, or other channels.
    """
    height, width = (size, size) if isinstance(size, (int, np.integer)) else size
    if min(height, width) < 1:
        raise ValueError(f"Received size={size!r}, expected a positive side or (height, width).")
    if channels not in (1, 3):
        raise ValueError(f"Received channels={channels!r}, expected 1 (grey) or 3 (colour).")

    def load(path):
        import tensorflow as tf

        image = tf.io.decode_image(tf.io.read_file(path), channels=channels, expand_animations=False)
        image = tf.image.resize(image, (height, width), antialias=True)
        return tf.ensure_shape(tf.saturate_cast(tf.round(image), tf.uint8), (height, width, channels))

    return load
