"""The photographs inside the wheels of scikit-image, scikit-learn and matplotlib, read as files."""

import hashlib
import importlib.util
import pathlib
from typing import NamedTuple

import numpy as np

from tfdml._core.checks import require, require_one_of
from tfdml._core.optional import optional_import


class Photograph(NamedTuple):
    """A photograph in one of the `folders` of site-packages, from a `distribution` of PyPI, whole or at `half` its
    size.
    """

    name: str
    distribution: str
    folders: tuple[str, ...]
    file: str
    sha256: str
    half: bool = False


_SOURCES = {
    "scikit-image": ("skimage/data", "_skimage2/data"),
    "scikit-learn": ("sklearn/datasets/images",),
    "matplotlib": ("matplotlib/mpl-data/sample_data",),
}
_FILES = {
    "matplotlib": {
        "grace_hopper.jpg": "a8ca6d734765703b09728ab47fe59f473d93ae3967fc24c7c0288c3c7adb7130",
    },
    "scikit-image": {
        "astronaut.png": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
        "camera.png": "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a",
        "chelsea.png": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
        "coffee.png": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
        "coins.png": "f8d773fc9cfa6f4d8e5942dc34d0a0788fcaed2a4fefbbed0aef5398d7ef4cba",
        "grass.png": "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89",
        "gravel.png": "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12",
        "hubble_deep_field.jpg": "3a19c5dd8a927a9334bb1229a6d63711b1c0c767fb27e2286e7c84a3e2c2f5f4",
        "ihc.png": "f8dd1aa387ddd1f49d8ad13b50921b237df8e9b262606d258770687b0ef93cef",
        "moon.png": "78739619d11f7eb9c165bb5d2efd4772cee557812ec847532dbb1d92ef71f577",
        "motorcycle_left.png": "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179",
        "motorcycle_right.png": "5fc913ae870e42a4b662314bc904d1786bcad8e2f0b9b67dba5a229406357797",
        "page.png": "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3",
        "retina.jpg": "38a07f36f27f095e818aea7b96d34202c05176d30253c66733f2e00379e9e0e6",
        "rocket.jpg": "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
        "text.png": "bd84aa3a6e3c9887850d45d606c96b2e59433fbef50338570b63c319e668e6d1",
    },
    "scikit-learn": {
        "china.jpg": "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
        "flower.jpg": "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
    },
}
PHOTOGRAPHS = {
    file.partition(".")[0]: Photograph(
        file.partition(".")[0], distribution, _SOURCES[distribution], file, sha256, half=file == "retina.jpg"
    )
    for distribution, files in _FILES.items()
    for file, sha256 in files.items()
}


def find(photograph: Photograph) -> pathlib.Path:
    """The file of a photograph; its package is found, not imported."""
    for folder in photograph.folders:
        package, _, rest = folder.partition("/")
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            path = pathlib.Path(root, rest, photograph.file)
            if path.is_file():
                sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
                expected = f"{photograph.sha256}. Install a release of {photograph.distribution} that setup.cfg allows"
                require(sha256 == photograph.sha256, f"{path} with sha256 {sha256}", expected)
                return path
    raise ImportError(
        f"The photograph {photograph.file} of {photograph.distribution} was not found. Install what photo patches are "
        "cut from: pip install tfdml[samples]."
    )


def read(photograph: Photograph) -> np.ndarray:
    """The pixels of a photograph, `(height, width, 3)` uint8; grey pictures have three equal channels."""
    path = find(photograph)
    pillow = optional_import("PIL.Image", feature="A photograph", extra="samples")
    with pillow.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    return _halved(pixels) if photograph.half else pixels


def photograph(name: str) -> np.ndarray:
    """The pixels of one of the photographs that photo patches are cut from.

    Example:

        >>> tfdml.datasets.photograph("astronaut").shape
        (512, 512, 3)

    Args:
        name: such as "astronaut", "chelsea" or "motorcycle_left"; docs/photo-patches.md lists them.

    Returns:
        `(height, width, 3)` uint8; gray pictures have three equal channels.
    """
    require_one_of(tuple(PHOTOGRAPHS), name=name)
    return read(PHOTOGRAPHS[name])


def _halved(pixels):
    """Means of 2 x 2 pixels, rounded; without an odd row or column at the end."""
    height, width = (side // 2 * 2 for side in pixels.shape[:2])
    sums = pixels[:height, :width].reshape(height // 2, 2, width // 2, 2, 3).sum(axis=(1, 3), dtype=np.uint16)
    return ((sums + 2) // 4).astype(np.uint8)
