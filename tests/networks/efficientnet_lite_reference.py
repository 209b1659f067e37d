"""What the networks and their references share: images, and the files of what each layer gives."""

from pathlib import Path

import numpy as np

SIDES = (224, 240, 260)
# Photographs of scikit-image, and the class of ImageNet that each shows.
CLASSES = {"chelsea": 285, "coffee": 967, "rocket": 657}


def file(version):
    """The file of a version."""
    return Path(__file__).with_name(f"efficientnet_lite{version}_reference.npz")


def noise(version):
    """One image of random pixels of the side of a version."""
    return np.random.default_rng(1).integers(0, 256, (1, SIDES[version], SIDES[version], 3), dtype="uint8")


def photographs():
    """The middle squares of the photographs, `(3, 224, 224, 3)` uint8."""
    from PIL import Image
    from skimage import data

    return np.stack([_square(Image.fromarray(getattr(data, name)())) for name in CLASSES])


def _square(image):
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    return np.asarray(image.crop((left, top, left + side, top + side)).resize((SIDES[0], SIDES[0]), 3))
