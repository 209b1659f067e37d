"""Result files of trackers, in the format of GOT-10k."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from recipes.tracking.checks import require

_FORM = "NAME/NAME_001.txt with one x,y,width,height per line"


def write_results(
    folder: str | os.PathLike[str],
    name: str,
    boxes: npt.ArrayLike,
    seconds: npt.ArrayLike | None = None,
    *,
    run: int = 1,
) -> Path:
    """Write the boxes of one clip, as the server of GOT-10k takes them: `NAME/NAME_001.txt` and `NAME/NAME_time.txt`.

    See also: `read_results`, which reads them again.

    Example:

        >>> path = tracking.write_results("tracker", "clip", [[1.0, 2.0, 5.0, 6.0]], seconds=[0.25])
        >>> print(path)
        tracker/clip/clip_001.txt
        >>> path.read_text().strip(), path.with_name("clip_time.txt").read_text().strip()
        ('1.000,2.000,5.000,6.000', '0.250000')

    Args:
        folder: the folder of the tracker; it is made if it does not exist.
        name: name of the clip, such as `GOT-10k_Test_000001`.
        boxes: `(frames, 4)` x, y, width, height.
        seconds: `(frames,)` of the tracker, for the file of times; None for no such file.
        run: number of the run; trackers that are not deterministic have three.

    Returns:
        The path of the boxes.

    Raises:
        ValueError: boxes of another shape or not finite, or other numbers of times than boxes.
        OSError: a file cannot be written.
    """
    boxes = np.asarray(boxes, np.float64)
    is_table = boxes.ndim == 2 and boxes.shape[1] == 4 and bool(np.isfinite(boxes).all())
    require(is_table, f"boxes of shape {boxes.shape}", "finite numbers (frames, 4)")
    path = Path(folder, name, f"{name}_{run:03}.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, (",".join(f"{value:.3f}" for value in box) for box in boxes))
    if seconds is not None:
        seconds = np.asarray(seconds, np.float64)
        require(seconds.shape == (len(boxes),), f"seconds of shape {seconds.shape}", f"({len(boxes)},)")
        _write(path.with_name(f"{name}_time.txt"), (f"{value:.6f}" for value in seconds))
    return path


def read_results(folder: str | os.PathLike[str], name: str, *, run: int = 1) -> np.ndarray:
    """The boxes of one clip that `write_results`, or another tracker, has written: `(frames, 4)` float64.

    Example:

        >>> _ = tracking.write_results("tracker", "clip", [[1.0, 2.0, 5.0, 6.0], [2.0, 2.0, 5.0, 6.0]])
        >>> tracking.read_results("tracker", "clip")
        array([[1., 2., 5., 6.],
               [2., 2., 5., 6.]])

    Raises:
        ValueError: no such file, or lines of another form.
    """
    path = Path(folder, name, f"{name}_{run:03}.txt")
    require(path.is_file(), f"folder={os.fspath(folder)!r} without {name}/{path.name}", _FORM)
    rows = [line.split(",") for line in path.read_text().splitlines() if line.strip()]
    try:
        boxes = np.array(rows, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"Received {os.fspath(path)!r}, which is not a table of numbers, expected {_FORM}.") from error
    require(boxes.ndim == 2 and boxes.shape[1] == 4, f"{os.fspath(path)!r} of shape {boxes.shape}", _FORM)
    return boxes


def _write(path, lines):
    path.write_text("\n".join(lines) + "\n")
