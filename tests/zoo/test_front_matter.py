"""The metadata of cards, read by huggingface_hub."""

from pathlib import Path

import pytest
from huggingface_hub import EvalResult, ModelCard, ModelCardData, metadata_load

from tests.zoo.cards import write_entry
from tfdml import zoo
from tfdml.zoo.card import page, write_page
from tfdml.zoo.front_matter import front_matter

ROOT = Path(__file__).parents[2] / "savedmodels"


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("*/model.json")))
def test_the_page_of_a_model_is_the_one_of_its_card_and_hugging_face_reads_its_metadata(name):
    card, path = zoo.card(name, root=ROOT), ROOT / name / "README.md"
    assert path.read_text() == page(card)
    model_card = ModelCard.load(path)
    assert model_card.text.startswith(f"\n# {name}\n")
    task = "image-feature-extraction"
    dataset = {"dataset_type": card.data.partition("/")[0], "dataset_name": card.protocol}
    values = {metric: mean.value for metric, mean in card.metrics.items()}
    results = [EvalResult(task, **dataset, metric_type=metric, metric_value=values[metric]) for metric in values]
    expected = ModelCardData(
        license="apache-2.0",
        library_name="keras",
        pipeline_tag=task,
        tags=["tfdml", "metric-learning", "image-retrieval"],
        model_name=name,
        eval_results=results,
    )
    assert model_card.data.to_dict() == expected.to_dict()
    assert metadata_load(path) == expected.to_dict()


@pytest.mark.parametrize(
    ("license", "expected"),
    [
        ("CC-BY-4.0", {"license": "cc-by-4.0"}),
        ("MIT; the photographs are CC BY 2.0.", {"license": "mit"}),
        ("GPL-3.0-or-later. The data are free.", {"license": "gpl-3.0"}),
        ("MIT OR Apache-2.0", {"license": "other", "license_name": "mit-or-apache-2.0"}),
        ("Proprietary, of Example Inc.", {"license": "other", "license_name": "proprietary"}),
        ("", {"license": "other", "license_name": "unnamed"}),
    ],
)
def test_a_license_has_the_name_that_hugging_face_gives_it(license, expected, tmp_path):
    (tmp_path / "README.md").write_text(front_matter("a", license, "data/v1", {"map@r": 0.5}))
    metadata = metadata_load(tmp_path / "README.md")
    assert {key: value for key, value in metadata.items() if key.startswith("license")} == expected


def test_no_text_of_a_card_changes_the_structure_of_its_metadata(tmp_path):
    evil = 'a: b\n---\n- "#\x1b\u2028\u202e é'
    metrics = {name: {"value": 0.00001, "low": 0, "high": 1} for name in ("recall@1", "map@r", evil)}
    write_entry(tmp_path, "evil", license=evil, protocol=evil, metrics=metrics)
    write_page(tmp_path / "evil", zoo.card("evil", root=tmp_path))
    metadata = metadata_load(tmp_path / "evil" / "README.md")
    (result,) = metadata["model-index"][0]["results"]
    assert result["dataset"]["name"] == evil
    assert [metric["type"] for metric in result["metrics"]] == ["recall@1", "map@r", evil]
    assert {metric["value"] for metric in result["metrics"]} == {0.00001}
    assert set(metadata) == {"license", "license_name", "library_name", "pipeline_tag", "tags", "model-index"}
