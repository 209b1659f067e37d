"""Animations of tracked boxes."""

import numpy as np
from PIL import Image

from recipes.tracking import Clip, tracks

CLIP = Clip(name="a", frames=[np.full((20, 30, 3), 40, np.uint8)] * 5, boxes=[[k, 5, 8, 6] for k in range(5)])


def test_a_gif_shows_boxes_and_names(tmp_path):
    path = tracks(tmp_path / "a.gif", CLIP, {"truth": CLIP.boxes, "network": CLIP.boxes + 2}, step=2)
    with Image.open(path) as image:
        assert image.size == (60, 40 + 2 * 12)
        assert image.n_frames == 3
        image.seek(1)  # frame 2: x from 2, and 4 for the other
        pixels = np.asarray(image.convert("RGB")).astype(int)
    assert pixels[10, 4].tolist() == [255, 255, 255]
    assert abs(pixels[14, 8] - [230, 159, 0]).max() < 12
    assert abs(pixels[5, 50] - 40).max() < 12
