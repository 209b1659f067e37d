"""The study of patches: its rows, and the page that shows them."""

import pytest

from studies import patches, runner


def test_the_network_has_fewer_bad_pixels_than_cross_correlation_at_its_best_window():
    rows = runner.read_rows(patches.STEREO)
    windows = [row["bad"] for row in rows if row["method"] != "network"]
    assert min(windows) == runner.where(rows, method=9)[0]["bad"]
    assert all(row["bad"] < min(windows) for row in runner.where(rows, method="network"))
    assert all(row["difference_high"] < 0 for row in runner.where(rows, method="network"))


def test_the_2_channel_network_errs_more_often_than_the_descriptor():
    rows = runner.read_rows(patches.ROWS)
    descriptor, pair_network = (
        [row["validation fpr95"] for row in runner.where(rows, network=name)] for name in patches.NAMES
    )
    assert min(pair_network) > max(descriptor)


@pytest.mark.slow
def test_the_study_is_told_with_few_places_and_steps(tmp_path):
    patches.main(["--quick", "--output", str(tmp_path)])
    rows = runner.read_rows(tmp_path / "patches.csv")
    assert [row["network"] for row in rows] == [*patches.NAMES, "siam, mined pairs"]
    assert [row["seed"] for row in runner.read_rows(tmp_path / "patches_stereo.csv")][-2:] == ["none", 0.0]
    assert (tmp_path / "stereo.png").exists()
