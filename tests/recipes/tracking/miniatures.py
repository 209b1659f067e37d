"""Writers of miniature copies of OTB and GOT-10k; each returns what its reader has to count."""

import numpy as np
import tensorflow as tf


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
