"""The study of precisions runs, small, and its table is that of its rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from studies import precision

pytestmark = pytest.mark.slow


def part(seed):
    images = np.random.default_rng(seed).integers(0, 256, (96, 32, 32, 1), dtype="uint8")
    return SimpleNamespace(images=images, labels=np.arange(96) // 6, protocol="noise")


@pytest.mark.parametrize("name", ["float32", "mixed_bfloat16"])  # float16 is slow on a CPU
def test_a_precision_trains_and_gives_embeddings_in_float32(name):
    row = precision.row(name, 0, 2, part(0), part(1))
    assert (row["precision"], row["steps"], row["skipped_steps"], row["embeddings"]) == (name, 2, 0, "float32")
    assert 0 < row["recall@1"] < 1
