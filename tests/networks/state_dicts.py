"""The arrays of the files that tools/make_state_dicts.py wrote with PyTorch, in its two formats."""

from pathlib import Path

import ml_dtypes
import numpy as np

FILES = {name: Path(__file__).with_name(f"state_dict_{name}.pth") for name in ("archive", "older")}
MATRIX = np.arange(6, dtype="float32").reshape(2, 3)
ARRAYS = {
    "a.weight": MATRIX,
    "a.transposed": MATRIX.T,
    "a.column": MATRIX[:, 1],
    "scalar": np.array(2.5, "float32"),
    "empty": np.zeros((0, 4), "float32"),
    "double": np.array([0.1, -2.0]),
    "half": np.array([0.5, 65504.0], "float16"),
    "bfloat16": np.array([1.5, -3.0], ml_dtypes.bfloat16),
    "int64": np.array([[2**40, -1]]),
    "int8": np.array([-128, 127], "int8"),
    "bool": np.array([True, False, True]),
}
