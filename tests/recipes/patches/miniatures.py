"""Writer of miniature scenes of PhotoTourism in their original format."""

import numpy as np
from PIL import Image

PATCHES = 259  # one full sheet, and three patches of the second
POINTS = np.arange(PATCHES) // 2 * 10 + 7  # two patches of each point, the last has one
PIXELS = np.random.default_rng(0).integers(0, 256, (512, 64, 64), np.uint8)  # the second sheet is filled up with others


def pair_line(one, other):
    return f"{one} {POINTS[one]} 0 {other} {POINTS[other]} 0 0"


def write_scene(folder, pairs=4):
    """A scene of PhotoTourism: sheets, points, photographs, and a list of pairs, which repeats four of them."""
    folder.mkdir(parents=True)
    for number in (1, 0):  # read in the order of their names, not of their creation
        Image.fromarray(_sheet(PIXELS[256 * number :])).save(folder / f"patches{number:04}.bmp")
    (folder / "info.txt").write_text("".join(f"{point} 0\n" for point in POINTS))
    (folder / "interest.txt").write_text("".join(f"{i % 3} {i}.5 2.0 -0.1 1.25\n" for i in range(PATCHES)))
    lines = [pair_line(0, 1), pair_line(1, 258), pair_line(256, 257), pair_line(2, 258)] * (pairs // 4)
    (folder / f"m50_{pairs}_{pairs}_0.txt").write_text("\n".join(lines) + "\n")
    return {folder.name: PATCHES}


def _sheet(patches):
    """Patches from left to right, then down."""
    return np.block([[patches[16 * row + column] for column in range(16)] for row in range(16)])
