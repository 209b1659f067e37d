"""Result files of trackers, in the format of GOT-10k."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recipes.checks import require


def write_results(
    folder: str | os.PathLike[str], name: str, boxes: npt.ArrayLike, seconds: npt.ArrayLike | None = None
) -> Path:
    """Write the boxes of one clip, as the server of GOT-10k takes them: `NAME/NAME_001.txt` and `NAME/NAME_time.txt`.

    Args:
        folder: the folder of the tracker; it is made if it does not exist.
        name: name of the clip, such as `GOT-10k_Test_000001`.
        boxes: `(frames, 4)` x, y, width, height.
        seconds: `(frames,)` of the tracker, for the file of times; None for no such file.

    Returns:
        The path of the boxes.
    """
    boxes, path = np.asarray(boxes, np.float64), Path(folder, name, f"{name}_001.txt")
    is_table = boxes.ndim == 2 and boxes.shape[1] == 4 and bool(np.isfinite(boxes).all())
    require(is_table, f"boxes of shape {boxes.shape}", "finite numbers (frames, 4)")
    is_timed = seconds is None or np.shape(seconds) == (len(boxes),)
    require(is_timed, f"seconds of shape {np.shape(seconds)}", f"({len(boxes)},)")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, boxes, fmt="%.3f", delimiter=",")
    if seconds is not None:
        np.savetxt(path.with_name(f"{name}_time.txt"), np.asarray(seconds, np.float64), fmt="%.6f")
    return path


def read_results(folder: str | os.PathLike[str], name: str) -> np.ndarray:
    """The boxes of one clip that `write_results`, or another tracker, has written: `(frames, 4)` float64."""
    path = Path(folder, name, f"{name}_001.txt")
    require(path.is_file(), f"folder={os.fspath(folder)!r} without {name}/{path.name}", "a file of boxes")
    boxes = np.loadtxt(path, delimiter=",", ndmin=2)
    require(boxes.shape[1] == 4, f"{os.fspath(path)!r} of shape {boxes.shape}", "x, y, width, height in each line")
    return boxes
