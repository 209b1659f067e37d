"""Writers of miniature sets of faces, patches and clips in their original formats, for tests of readers and recipes.

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


def write_otb(root):
    """OTB: eight folders with nine tracks, in all the forms of the original."""
    forms = {"Basketball": ",", "Board": "\t", "BlurCar1": " ", "KiteSurf": ", "}
    for name, separator in forms.items():
        start = 247 if name == "BlurCar1" else 1
        suffix, folder, digits = (
            (".png", "jpg", 4) if name == "KiteSurf" else (".jpg", "img", 5 if name == "Board" else 4)
        )
        _frames(root / name / folder, range(start, start + 3), suffix, digits)
        (root / name / "groundtruth_rect.txt").write_text(_boxes(3, separator))
    _frames(root / "Jogging" / "img", range(1, 4))
    for target in (1, 2):
        (root / "Jogging" / f"groundtruth_rect.{target}.txt").write_text(_boxes(3, ",", first=10 * target))
    _frames(root / "Human4" / "img", range(1, 4))
    (root / "Human4" / "groundtruth_rect.1.txt").write_text("")
    (root / "Human4" / "groundtruth_rect.2.txt").write_text(_boxes(3, ","))
    _frames(root / "David" / "img", range(298, 303))
    (root / "David" / "groundtruth_rect.txt").write_text(_boxes(3, ","))  # of 300 to 302
    _frames(root / "Tiger1" / "img", range(1, 9))
    (root / "Tiger1" / "groundtruth_rect.txt").write_text(_boxes(8, ","))
    return {"otb100": 9, "otb2013": 5}


def write_got10k(root, val=1):
    """GOT-10k: two sequences in train, one of them damaged, `val` of them in val, and one in test."""
    parts = {"train": ["GOT-10k_Train_000001", "GOT-10k_Train_008628"]}
    parts["val"] = [f"GOT-10k_Val_{number:06}" for number in range(1, val + 1)]
    parts["test"] = ["GOT-10k_Test_000001"]
    for split, names in parts.items():
        (root / split).mkdir(parents=True)
        (root / split / "list.txt").write_text("\n".join(names) + "\n")
        for name in names:
            _sequence(root / split / name, split)
    return {split: len(names) for split, names in parts.items()}


def _sequence(folder, split):
    _frames(folder, range(1, 4), digits=8)
    (folder / "groundtruth.txt").write_text("1.0000,2.0000,5.0000,6.0000\n" * (1 if split == "test" else 3))
    if split != "test":
        for name, values in (("absence", "0\n0\n1\n"), ("cover", "8\n0\n3\n"), ("cut_by_image", "0\n0\n0\n")):
            (folder / f"{name}.label").write_text(values)
        info = "[METAINFO]\nurl: https://a.b/c?d=%20\nresolution: (1920, 1080)\n"
        (folder / "meta_info.ini").write_text(info)


def _frames(folder, numbers, suffix=".jpg", digits=4):
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    encode = tf.io.encode_png if suffix == ".png" else tf.io.encode_jpeg
    for number in numbers:
        (folder / f"{number:0{digits}}{suffix}").write_bytes(encode(pixels).numpy())


def _boxes(count, separator, first=1):
    return "\n".join(separator.join(map(str, (first + k, 2, 5, 6))) for k in range(count)) + "\n"
