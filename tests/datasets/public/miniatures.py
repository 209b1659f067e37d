"""Writers of miniature sets of faces in their original formats, for tests of readers and recipes.

Each returns what its reader has to count.
"""

import numpy as np
import tensorflow as tf

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


def write(path, *lines):
    """A text file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


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
