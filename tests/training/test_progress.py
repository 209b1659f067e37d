"""The table of the epochs of a run."""

import pytest

from tfdml.training.progress import History


def test_a_damaged_table_of_epochs_is_named(tmp_path):
    (tmp_path / "history.csv").write_text("epoch,loss\nx,1\n")
    with pytest.raises(ValueError, match=r"damaged '.*history\.csv', expected a row per epoch"):
        History(tmp_path / "history.csv", num_epochs=2)
