"""Writers of miniature sets of faces and patches in their original formats, for tests of readers and recipes.

Each returns what its reader has to count.
"""

import numpy as np
import tensorflow as tf
from PIL import Image

# Two sets of people; each fold has a matched and a mismatched pair.
PEOPLE = """2
2
Ann_Bell\t3
Zed\t1
1
Bob_Cole\t2
"""
PAIRS = """2\t1
Ann_Bell\t1\t3
Ann_Bell\t2\tZed\t1
Bob_Cole\t1\t2
Bob_Cole\t2\tZed\t1
"""
LFW_FILES = [
    f"lfw/{name}/{name}_{i:04}.jpg"
    for name, n in (("Ann_Bell", 3), ("Zed", 1), ("Bob_Cole", 2))
    for i in range(1, n + 1)
]


def write_files(root, files, content=lambda row: b""):
    """Files below a folder; `content` is a function of their number."""
    for row, file in enumerate(files):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content(row))


def jpeg(row, height=40, width=32):
    """The bytes of an image of noise."""
    pixels = np.random.default_rng(row).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return tf.io.encode_jpeg(pixels).numpy()


def write_lfw(root, content=lambda row: b""):
    """LFW: 6 images of 3 people, and 4 pairs in 2 folds."""
    write_files(root, LFW_FILES, content)
    (root / "people.txt").write_text(PEOPLE)
    (root / "pairs.txt").write_text(PAIRS)
    return {"lfw": (6, 3)}, {"pairs.txt": (4, "lfw/view2/10-fold/v1")}


def write_casia(root, content, people=4, images=3):
    """CASIA-WebFace as folders of people."""
    files = [f"{7 * person:07}/{image:03}.jpg" for person in range(people) for image in range(1, images + 1)]
    write_files(root, files, content)
    return {"casia-webface": (people * images, people)}


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
