"""Comparison of embeddings: values by hand, by the metrics, errors at the call, the files."""

import json
import re
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from tfdml import evaluation, metrics
from tfdml.metrics.statistics.tests import detectable

LABELS = np.repeat(np.arange(8), 3)


@pytest.fixture(scope="module")
def models():
    """Three models of 24 queries of 8 classes, the first one best."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(8, 6))
    return {name: centers[LABELS] + s * rng.normal(size=(24, 6)) for name, s in {"a": 0.2, "b": 1.2, "c": 9.0}.items()}


@pytest.fixture(scope="module")
def comparison(models):
    return evaluation.compare(models, LABELS, by={"camera": LABELS // 2}, shown=3)


def test_means_and_intervals_are_those_of_the_metrics(models, comparison):
    for model, vectors in models.items():
        values = metrics.retrieval(vectors, LABELS, k=1, per_query=True)
        assert list(comparison.means[model]) == ["map@r", "recall@1", "r_precision", "mrr"]
        for name, mean in comparison.means[model].items():
            assert mean.value == values[name].mean()
            assert mean[1:] == metrics.class_interval(values[name], LABELS)


def test_pairs_are_paired_comparisons_corrected_for_all_pairs(models, comparison):
    values = {model: metrics.retrieval(x, LABELS, k=1, per_query=True)["map@r"] for model, x in models.items()}
    names = [("a", "b"), ("a", "c"), ("b", "c")]
    expected = [metrics.paired_comparison(values[i], values[j], LABELS, names=(i, j)) for i, j in names]
    assert [pair.comparison for pair in comparison.pairs] == expected
    corrected = metrics.holm_correction([each.p for each in expected])
    assert [pair.corrected for pair in comparison.pairs] == corrected.tolist()
    assert [pair.better for pair in comparison.pairs] == ["a", "a", ""]
    for pair in comparison.pairs:
        differences = np.abs(np.subtract(*(values[name] for name in pair.comparison.names)))
        assert differences[list(pair.queries)].tolist() == sorted(differences)[::-1][:3]


def test_a_comparison_with_one_model_has_its_pairs_only(models, comparison):
    found = evaluation.compare(models, LABELS, against="a")
    assert [pair.comparison.names for pair in found.pairs] == [("b", "a"), ("c", "a")]
    assert [pair.comparison.difference for pair in found.pairs] == [
        -pair.comparison.difference for pair in comparison.pairs[:2]
    ]
    corrected = metrics.holm_correction([pair.comparison.p for pair in comparison.pairs[:2]])
    assert [pair.corrected for pair in found.pairs] == corrected.tolist()


def test_the_smallest_difference_of_80_percent_power_is_the_median_of_the_pairs(models, comparison, tmp_path):
    mains = {model: values["map@r"] for model, values in comparison.per_query.items()}
    smallest = [pair.detectable for pair in comparison.pairs]
    assert smallest == [detectable(mains[i], mains[j], LABELS, 0.05 / 3) for i, j in ("ab", "ac", "bc")]
    text = f"a difference of map@r of {100 * np.median(smallest):.1f} points is seen with 80% power"
    assert text in " ".join(str(comparison).split())
    assert text in (comparison.save(tmp_path / "out") / "index.html").read_text()
    (pair,) = evaluation.compare({name: models[name] for name in "ab"}, LABELS).pairs
    assert pair.detectable == detectable(mains["a"], mains["b"], LABELS, 0.05)


def test_numbers_by_hand():
    """Of four rows on a line, `near` finds each classmate first; in `far` one of two classes finds it last."""
    near, far = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([[0.0], [1.0], [10.0], [-9.0]])
    found = evaluation.compare({"near": near, "far": far}, list("aabb"), metric="euclidean", metrics=("mrr", "map@r"))
    assert found.means["near"]["mrr"].value == 1
    assert found.means["far"]["mrr"].value == np.mean([1, 1, 1 / 3, 1 / 3])
    assert found.means["far"]["map@r"].value == 0.5
    (pair,) = found.pairs
    assert (pair.comparison.difference, pair.comparison.p) == pytest.approx((1 / 3, 0.5))  # the smallest p of 2 classes
    assert pair.queries == (2, 3)
    ids = [[neighbor.example.row for neighbor in found.neighbors[model][3]] for model in found.means]
    assert ids == [[2, 1, 0], [0, 1, 2]]


def test_groups_have_their_own_means(comparison):
    assert [(group.by, group.value, group.queries, group.units) for group in comparison.groups] == [
        ("camera", str(camera), 6, 2) for camera in range(4)
    ]
    values = comparison.per_query["b"]["map@r"]
    assert comparison.groups[1].means["b"].value == values[LABELS // 2 == 1].mean()
    assert "No interval: 2 classes; a 95% interval needs 6." in str(comparison)


def test_too_few_classes_are_said_in_place_of_an_interval(models):
    few = evaluation.compare({name: x[:9] for name, x in models.items()}, LABELS[:9])
    assert "No interval: 3 classes; a 95% interval needs 6." in str(few)
    assert "nan" not in str(few) + json.dumps(few.as_dict(), allow_nan=False)
    assert [pair.better for pair in few.pairs] == ["", "", ""]
    assert "power" not in str(few)


def test_other_metrics_are_measured_by_name(models):
    names = ("map@r", "recall@4", "precision@2", "map", "knn", "verification", "clustering")
    (means,) = evaluation.compare({"a": models["a"]}, LABELS, metrics=names).means.values()
    whole = ["auc", "eer", "tar@far=0.01", "fpr95", "nmi", "ami", "f1"]
    assert list(means) == [*names[:5], *whole]
    assert means["knn"].value == metrics.knn_accuracy(models["a"], LABELS, metric="cosine")["accuracy"]
    assert means["nmi"].value == metrics.clustering(models["a"], LABELS)["nmi"]
    query, item = np.argwhere(~np.eye(24, dtype=bool)).T
    scores = metrics.pair_scores(models["a"][query], models["a"][item])
    auc = metrics.verification(scores, LABELS[query] == LABELS[item], far=())["auc"]
    assert means["auc"].value == pytest.approx(auc, abs=0.01)  # of drawn pairs
    assert np.isnan([means[name].low for name in whole]).all()


def test_a_gallery_is_searched_and_a_query_without_a_class_in_it_is_skipped(models):
    gallery = {name: x[3:] for name, x in models.items()}
    found = evaluation.compare(models, LABELS, gallery=gallery, gallery_labels=LABELS[3:])
    expected = metrics.retrieval(models["a"], LABELS, k=1, gallery=gallery["a"], gallery_labels=LABELS[3:])
    assert found.means["a"]["map@r"].value == expected["map@r"]
    assert (found.queries, found.skipped) == (21, 3)
    sizes = "21 queries of 7 classes, 3 more without a relevant item, in 21 items"
    assert f"{sizes}; protocol: own-data/query-gallery/exact-cosine/v1." in " ".join(str(found).split())


def test_a_warning_of_a_model_is_a_note():
    equal = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    notes = evaluation.compare({"equal": equal, "other": equal}, [0, 1, 1, 0]).notes
    assert notes[0].startswith("equal: For 100.0% of the queries the first relevant item ties")


def test_tables_have_at_most_100_columns(models):
    many = {f"{name}-with-a-name-that-is-longer-than-a-column": x for name, x in models.items()}
    many |= {f"another {name}": x for name, x in many.items()}
    names = ("map@r", "recall@1", "recall@2", "mrr", "map", "r_precision")
    lines = str(
        evaluation.compare(
            many, LABELS, metrics=names, by={"camera": LABELS % 2}, against="another " + next(iter(many))
        )
    )
    assert max(map(len, lines.split("\n"))) <= 100
    assert lines.count("\na-with") == 3  # two blocks of metrics, a pair


def test_models_are_read_one_after_another(models):
    class Files(dict):
        def __getitem__(self, name):
            read.append(name)
            return super().__getitem__(name)

    read = []
    evaluation.compare(Files(models), LABELS)
    assert read == list("abcabcabc")  # the checks, the metrics, the neighbors of the queries that differ


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"embeddings": {}}, "Received no embeddings, expected at least one."),
        ({"embeddings": [1]}, "Received embeddings of type list, expected models by name"),
        ({"embeddings": {" ": np.eye(24)}}, "Received a model with the name ' ', expected text"),
        ({"embeddings": {"a": np.eye(24), "b": np.eye(7)}}, "embeddings['b'] with 7 rows, expected 24, one for each"),
        ({"embeddings": {"a": np.eye(24), "b": np.full((24, 2), np.nan)}}, "embeddings['b'] with a value that is NaN"),
        ({"embeddings": {"a": np.eye(24), "b": np.ones((24, 2))}}, "b: Received embeddings that are all"),
        ({"labels": np.zeros(24, int)}, "Received labels of one class, 0, expected at least two classes"),
        ({"labels": np.arange(24)}, "Received 24 queries without a relevant item, expected labels that are the same"),
        ({"metrics": "map@r"}, "Received metrics='map@r', expected several names"),
        ({"metrics": ("map@r", "recal@1")}, "Received metrics ['recal@1'], expected names such as 'recall@1'"),
        ({"metrics": ("clustering",)}, "Received 'clustering' as the first metric, expected one that has a value"),
        ({"metrics": ("recall@99",)}, "Received k=99, but a query has 23 candidates."),
        ({"metric": "l2"}, "Received metric='l2', expected one of 'cosine', 'dot', 'euclidean'."),
        ({"confidence": 95}, "Received confidence=95, expected a number between 0 and 1."),
        ({"against": "b"}, "Received against='b', expected one of a, or None."),
        ({"shown": -1}, "Received shown=-1, expected a number of queries of at least 0."),
        (
            {"gallery": {"b": np.eye(24)}, "gallery_labels": LABELS},
            "a gallery of b, expected gallery_labels and a gall",
        ),
        ({"gallery": {"a": np.eye(24)}}, "expected gallery_labels and a gallery of each of a, or neither."),
        (
            {"gallery": {"a": np.eye(24)}, "gallery_labels": [f"class {label}" for label in LABELS]},
            "labels such as '0', and gallery_labels such as 'class 0', without a common class, expected the same names",
        ),
        (
            {"gallery": {"a": np.eye(9)}, "gallery_labels": LABELS[:9]},
            "Received embeddings of dim 24 and a gallery of dim 9.",
        ),
        ({"gallery_paths": ["none.png"]}, "Received gallery_paths without a gallery, expected a gallery, or none."),
        ({"by": {"camera": [1]}}, "Received by['camera'] with 1 values, expected 24: one for each query."),
        ({"paths": ["none.png"] * 24}, "Received paths with 'none.png', which is no file, expected files"),
        ({"paths": ["none.png"]}, "Received paths with 1 files, expected 24, one for each label."),
    ],
)
def test_bad_input_is_named_at_the_call(changed, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        evaluation.compare(**{"embeddings": {"a": np.eye(24)}, "labels": LABELS, **changed})


def test_a_nan_in_a_mapped_file_is_named_by_its_row_without_a_copy(tmp_path):
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (100_000, 40))
    x[70_001, 3] = np.nan
    labels = np.arange(100_000) // 2
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"embeddings\['a'\] with a value that is NaN, .* \(first in row 70001\)"):
        evaluation.compare({"a": x}, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 4  # the labels and a block of rows


def test_a_column_of_many_values_is_refused(models):
    with pytest.raises(ValueError, match=re.escape("by['row'] with 101 different values, expected at most 100.")):
        evaluation.compare({"a": np.eye(101)}, np.arange(101) // 2, by={"row": range(101)})


def test_the_folder_has_a_record_and_a_page_and_other_files_stay(comparison, tmp_path):
    folder = comparison.save(tmp_path / "out")
    assert comparison.save(folder) == folder
    record = json.loads((folder / "evaluation.json").read_text())
    assert record["pairs"][0]["models"] == ["a", "b"]
    assert record["pairs"][0]["difference"] == comparison.pairs[0].comparison.difference
    assert record["means"]["c"]["mrr"]["value"] == comparison.means["c"]["mrr"].value
    page = (folder / "index.html").read_text()
    for heading in ("Good and bad answers", "Means", "Pairs", "By camera", "Queries that differ most", "Conditions"):
        assert f"<h2>{heading}</h2>" in page
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"a folder with 'notes.txt'"):
        comparison.save(folder)


def test_the_page_shows_pictures_of_readable_files(models, tmp_path):
    paths = [str(tmp_path / f"{row:02}.png") for row in range(24)]
    for row, path in enumerate(paths):
        tf.io.write_file(path, tf.io.encode_png(np.full((9, 7, 3), 10 * row, "uint8")))
    found = evaluation.compare({name: models[name] for name in "ab"}, LABELS, paths=paths, shown=2)
    first, second = found.pairs[0].queries
    tf.io.write_file(paths[first], b"no picture")
    page = (found.save(tmp_path / "out") / "index.html").read_text()
    assert page.count("data:image/png;base64") == page.count("<figure") - page.count(
        f'<span class="name">{paths[first]}'
    )
    assert f'alt="{paths[second]}"' in page
    assert f'<span class="name">{paths[first]}</span>' in page


class Column:
    """A column of a table of Arrow, as a dataset of Hugging Face `datasets` 5.2 returns it by `dataset[name]`."""

    def __init__(self, source, column_name):
        self.source, self.column_name = source, column_name

    def __len__(self):
        return len(self.source)

    def __getitem__(self, key):
        assert self.source.form == "numpy", "row by row, which is slow"
        assert key == slice(None)
        values = self.source.table[self.column_name].to_pylist()
        try:
            return np.array(values)
        except ValueError:  # vectors of several lengths
            return np.array([None, *map(np.array, values)], dtype=object)[1:]


class Dataset:
    """A dataset of such columns."""

    def __init__(self, table, form=None):
        self.table, self.form = table, form

    def __len__(self):
        return self.table.num_rows

    def with_format(self, form):
        return Dataset(self.table, form)

    def __getitem__(self, name):
        return Column(self, name)


def test_columns_of_a_dataset_of_hugging_face_are_read_at_once(models, comparison):
    import pyarrow

    columns = {name: x.tolist() for name, x in models.items()}
    data = Dataset(pyarrow.table(columns | {"shop": LABELS.tolist(), "text": [f"class {y}" for y in LABELS]}))
    for labels in (data["shop"], data["text"]):
        found = evaluation.compare({name: data[name] for name in models}, labels)
        assert found.means == comparison.means
        assert [pair.comparison for pair in found.pairs] == [pair.comparison for pair in comparison.pairs]
    ragged = Dataset(pyarrow.table({"a": [[1.0, 2.0], *[[1.0]] * 23]}))
    with pytest.raises(ValueError, match=re.escape("Received embeddings['a'] that are not a matrix of numbers")):
        evaluation.compare({"a": ragged["a"]}, LABELS)
