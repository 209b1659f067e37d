"""What EfficientNet-Lite0 and its reference share: the photographs, and the file of what each layer gives."""

from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("efficientnet_lite0_reference.npz")
SIZE = 224
# Photographs of scikit-image, and the class of ImageNet that each shows.
CLASSES = {"chelsea": 285, "coffee": 967, "rocket": 657}


def photographs():
    """The middle squares of the photographs, `(3, 224, 224, 3)` uint8."""
    from PIL import Image
    from skimage import data

    return np.stack([_square(Image.fromarray(getattr(data, name)())) for name in CLASSES])


def _square(image):
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    return np.asarray(image.crop((left, top, left + side, top + side)).resize((SIZE, SIZE), 3))
