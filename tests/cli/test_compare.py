"""`tfdml compare`: the files that people have, the output, the errors."""

import importlib
import json
import re
import tracemalloc

import numpy as np
import pytest

from tfdml import cli, evaluation, models

LABELS = np.repeat(np.arange(8), 3)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Function from a command to its exit code, and the text on stdout and stderr, in a folder with the same vectors
    in each form.
    """
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(24, 4)).astype("float32") + np.eye(8, 4)[LABELS]
    np.save("a.npy", vectors)
    np.savez("both.npz", x=vectors, y=vectors[::-1])
    rows = "".join(f"class {label},{row % 2},{row}.png\n" for row, label in enumerate(LABELS))
    (tmp_path / "labels.csv").write_text(f"label,camera,file\n{rows}")
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    (tmp_path / "bm25.run").write_text("q1 Q0 d1 1 0.5 t\nq2 Q0 d1 1 0.9 t\nq2 Q0 d2 2 0.8 t\n")
    (tmp_path / "scores.csv").write_text("model,query,score\na,u,1\na,v,2\nb,u,3\nb,v,5\n")

    def called(command):
        code = cli.main(command.split())
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    called.vectors = vectors
    return called


def test_the_tables_are_those_of_the_function(run):
    options = "--by camera --confidence 0.9 --shown 2 --against a"
    code, out, err = run(f"compare a.npy other=both.npz::y --labels labels.csv {options}")
    labels = [f"class {label}" for label in LABELS]
    by = {"camera": np.arange(24) % 2}
    vectors = {"a": run.vectors, "other": run.vectors[::-1]}
    expected = evaluation.compare(vectors, labels, by=by, confidence=0.9, against="a")
    assert (code, out, err) == (0, f"{expected}\n", "")


@pytest.mark.parametrize("form", ["both.npz::x", "x.parquet", "x.parquet::v", "flat.faiss", "stored", "odd=name.npy"])
def test_vectors_in_another_form_are_the_same(run, form):
    _write(form, run.vectors)
    code, out, _ = run(f"compare {form} --labels labels.csv --metrics mrr,recall@1 --metric euclidean --json")
    (means,) = json.loads(out)["means"].values()
    options = {"metrics": ("mrr", "recall@1"), "metric": "euclidean"}
    expected = evaluation.compare({"x": run.vectors}, LABELS, **options).means["x"]
    assert code == 0
    assert {name: mean["value"] for name, mean in means.items()} == {
        name: mean.value for name, mean in expected.items()
    }


def _write(form, vectors):
    if form.startswith("x.parquet"):
        arrow, parquet = pytest.importorskip("pyarrow"), importlib.import_module("pyarrow.parquet")
        parquet.write_table(arrow.table({"embedding": list(vectors), "v": list(vectors)}), "x.parquet")
    elif form == "flat.faiss":
        faiss = pytest.importorskip("faiss")
        index = faiss.IndexFlatL2(4)
        index.add(vectors)
        faiss.write_index(index, "flat.faiss")
    elif form == "stored":
        model = type("Model", (), {"fingerprint": "m", "predict_on_batch": lambda self, x: np.asarray(x)})()
        models.write_embeddings(model, vectors, "stored")
    elif form == "odd=name.npy":
        np.save(form, vectors)


def test_a_gallery_has_a_file_for_each_model(run):
    command = "compare a.npy b=a.npy --labels labels.csv --gallery a.npy both.npz::y --gallery-labels labels.csv --json"
    record = json.loads(run(command)[1])
    assert record["means"]["a"]["recall@1"]["value"] == 1
    assert record["means"]["b"]["recall@1"]["value"] < 1
    assert record["items"] == 24


def test_rankings_and_scores_are_compared_and_written(run, tmp_path):
    code, out, _ = run("compare bm25.run --qrels qrels --metrics mrr --out out")
    assert code == 0
    assert "bm25   75.0" in out
    assert out.endswith("\nout/index.html shows the queries that differ most\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"evaluation.json", "index.html", "SHA256SUMS"}
    code, out, _ = run("compare --scores scores.csv")
    assert code == 0
    assert "a - b  -2.5 " in out
    (tmp_path / "seeds.csv").write_text((tmp_path / "scores.csv").read_text().replace("query", "seed"))
    code, out, _ = run("compare --scores seeds.csv")
    assert (code, "\n2 seeds. " in out) == (0, True)


@pytest.mark.parametrize("changed", ["index.html", "evaluation.json", "notes.txt"])
def test_out_replaces_a_comparison_as_it_was_written_and_no_other_folder(run, tmp_path, changed):
    for _ in range(2):
        assert run("compare bm25.run --qrels qrels --metrics mrr --out out")[0] == 0
    (tmp_path / "out" / changed).write_text("{}")
    code, _, err = run("compare bm25.run --qrels qrels --metrics mrr --out out")
    assert (code, (tmp_path / "out" / changed).read_text()) == (2, "{}")
    assert f"--out out: Received path='out', a folder with '{changed}', which is not a file of an earlier" in err


@pytest.fixture
def parquet():
    """Function that writes columns into a Parquet file."""
    arrow, module = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    return lambda name, columns: module.write_table(arrow.table(columns), name)


def test_a_parquet_table_is_the_one_of_a_text(run, parquet):
    expected = run("compare a.npy --labels labels.csv --by camera")
    texts = [f"class {label}" for label in LABELS]
    parquet("labels.parquet", {"label": texts, "camera": np.arange(24) % 2, "embedding": list(run.vectors)})
    assert run("compare a.npy --labels labels.parquet --by camera") == expected
    scores = {"model": list("aabb"), "query": list("uvuv"), "score": [1.0, 2.0, 3.0, 5.0]}
    parquet("scores.parquet", scores)
    assert run("compare --scores scores.parquet") == run("compare --scores scores.csv")


def test_labels_of_any_length_are_classes(run, tmp_path):
    expected = run("compare a.npy --labels labels.csv")
    for first in (0, 2**63 - 4, 2**63, 2**64, 10**30):
        rows = "".join(f"{first + int(label)}\n" for label in LABELS)
        (tmp_path / "labels.csv").write_text(f"label\n{rows}")
        assert run("compare a.npy --labels labels.csv") == expected


def test_a_file_is_read_only_if_its_length_justifies_what_it_takes_in_memory(run, parquet, tmp_path):
    """Zeros in Parquet, and in a compressed archive, whose sizes stand in their headers."""
    import pyarrow as arrow

    zeros = np.zeros(30_000_000, np.int8)
    parquet("zeros.parquet", {"label": zeros, "model": zeros, "query": zeros, "score": zeros})
    lists = arrow.FixedSizeListArray.from_arrays(arrow.array(zeros.astype(np.float32)), 1_250_000)
    parquet("vectors.parquet", {"embedding": lists})
    np.savez_compressed("zeros.npz", np.zeros((24, 1_250_000), np.float32))
    before = tracemalloc.start() or tracemalloc.get_traced_memory()[0]
    found = [
        run(f"compare {words}")
        for words in (
            "a.npy --labels zeros.parquet",
            "--scores zeros.parquet",
            "vectors.parquet --labels labels.csv",
            "zeros.npz --labels labels.csv",
        )
    ]
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < 10e6
    assert [code for code, *_ in found] == [2, 2, 1, 1]
    assert "zeros.parquet: Received 30,000,000 rows, expected 24, one for each vector." in found[0][2]
    assert all("bytes in memory in a file of" in err for _, _, err in found[1:])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a\nb\n", "without 'label' (--label-column), expected some of a. Its first line names the columns, with ','"),
        ("label;camera\na;1\n", "expected some of label;camera. Its first line names the columns, with ',' between"),
        ("label,label\na,b\n", "Received columns label, label, expected each name once."),
        ("label,camera\na,1\nb\n", "Received line 3 with 1 values, expected 2: label, camera."),
        ("label,camera\na,1\nb,1,2\n", "Received line 3 with 3 values, expected 2"),
        ('label\na\n"b\n', "Received line 3 with unexpected end of data, expected 1: label."),
        ("label\n" + 'a\n""\n' * 12, "12 rows without a label, such as row 1, expected one in each"),
        ("label\na".encode("utf-16"), "labels.csv: Received a file that is no text in UTF-8, expected one."),
    ],
)
def test_a_table_of_labels_in_another_form_is_named(run, tmp_path, content, text):
    (tmp_path / "labels.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, _, err = run("compare a.npy --labels labels.csv")
    assert code == 2
    assert text in err


def test_an_array_of_labels_is_refused_with_the_line_that_makes_a_table_of_it(run):
    labels = LABELS
    np.save("labels.npy", labels)
    code, _, err = run("compare a.npy --labels labels.npy")
    assert (code, "--labels labels.npy: Received an array, expected a table. numpy." in err) == (2, True)
    exec(re.search(r"numpy(\.savetxt\(.*\)) makes", err)[1].join(["np", ""]), {"np": np, "labels": labels})
    assert run("compare a.npy --labels labels.csv")[0] == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("both.npz --labels labels.csv", "both, both.npz: Received 2 arrays: x, y, expected one, or its name"),
        ("labels.csv --labels labels.csv", "Received a file that ends in '.csv', expected .npy, .npz, .parquet"),
        ("a.npy --labels labels.csv --path-column file", "Received paths with '0.png', which is no file"),
        ("bm25.run --qrels bm25.run", "Received bm25.run, line 1: 6 words, expected 4: query 0 document grade."),
    ],
)
def test_an_error_is_one_line(run, words, text):
    code, out, err = run(f"compare {words}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert text in err


def log(first, days, shift=0.0):
    """A log of 5 searches on each of so many days of March, from one on."""
    times = [f"2026-03-{day:02}T10:00:{number}0+00:00" for day in range(first, first + days) for number in range(5)]
    scores = (0.8 + shift + 0.01 * (row % 4) for row in range(len(times)))
    return "time,score,unknown\n" + "".join(f"{time},{score:.3f},\n" for time, score in zip(times, scores, strict=True))


def test_drift_prints_what_has_moved_and_its_exit_code_says_so(run, tmp_path):
    for name, text in {"first": log(1, 7), "same": log(8, 7, 0.001), "lower": log(8, 7, -0.2)}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    code, out, err = run("drift first.csv same.csv --json")
    assert (code, err, json.loads(out)["moved"]) == (0, "", [])
    code, out, _ = run("drift first.csv lower.csv --confidence 0.99")
    assert code == 1
    assert out.splitlines()[-2:] == [
        "Left out: 'unknown' on 0 days of the reference, 0 of the current.",
        "Moved: score.",
    ]
    assert run("drift first.csv labels.csv")[0] == 2
    code, _, err = run("drift first.csv first.csv")
    assert (code, "REFERENCE first.csv, LOG first.csv: Received a reference from 2026-03-01T10:00:00 to" in err) == (
        2,
        True,
    )


def test_drift_of_few_days_says_that_they_are_few(run, tmp_path):
    (tmp_path / "first.csv").write_text(log(1, 2))
    (tmp_path / "second.csv").write_text(log(3, 2, -0.5))
    code, out, _ = run("drift first.csv second.csv")
    assert code == 3
    assert out.splitlines()[-1].startswith(
        "Too few days to tell: score. At a confidence of 0.95, 1 column needs 6 days"
    )


@pytest.mark.parametrize("length", range(1, 34))
def test_the_last_line_of_a_log_may_be_cut_anywhere(run, tmp_path, length):
    whole, cut = log(8, 7), "2026-03-14T10:00:59+00:00,0.800,"[:length]
    (tmp_path / "first.csv").write_text(log(1, 7))
    (tmp_path / "second.csv").write_text(whole)
    expected = run("drift first.csv second.csv --json")
    (tmp_path / "second.csv").write_text(whole + cut)
    code, out, err = run("drift first.csv second.csv --json")
    if cut.count(",") == 2:
        assert (code, json.loads(out)["searches"], err) == (0, [35, 36], "")
    else:
        assert (code, out) == expected[:2]
        assert err == "tfdml: second.csv: line 37, the last one, was cut and is left out\n"


def test_a_line_that_is_joined_to_the_next_one_is_named(run, tmp_path):
    (tmp_path / "first.csv").write_text(log(1, 7))
    for half, text in (
        (
            "2026-03-14T10:00:59+00:00,0.8",
            "second.csv: Received line 37 with 4 values, expected 3: time, score, unknown. A full disk",
        ),
        ("2026-03-14T1", "Received the time '2026-03-14T12026-03-15T10:00:00+00:00' in row 35 of the current stretch"),
    ):
        (tmp_path / "second.csv").write_text(log(8, 7) + half + log(15, 1).partition("\n")[2])
        code, _, err = run("drift first.csv second.csv")
        assert code == 2
        assert text in err
