"""The tables of the page of tracking are those of the kept results."""

import json

from studies import tracking


def test_a_table_has_means_deviations_and_the_difference():
    run = dict.fromkeys(tracking.COLUMNS, 0.5)
    results = {
        "runs": {"network": [run, run | {"ao": 0.6}], "template": [run]},
        "frames_per_second": {"network": 20.4, "template": 10.0},
        "difference": {"mean": 0.05, "interval_of_clips": [0.01, 0.09], "interval_of_seeds": [0.02, 0.08]},
        **{"hardware": "H", "versions": "V"},
    }
    text = tracking.section(json.loads(json.dumps(results)))
    assert "| network | 50.0 ± 0.0 | 50.0 ± 0.0 | 55.0 ± 7.1 |" in text
    assert "| template | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 | 10 |" in text
    assert "5.0 (95% interval over clips 1.0 to 9.0; over seeds 2.0 to 8.0)" in text
