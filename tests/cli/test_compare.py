"""`tfdml compare`: the files that people have, the output, the errors."""

import importlib
import json

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
    expected = evaluation.compare({"x": run.vectors}, LABELS, metrics=("mrr", "recall@1"), metric="euclidean").means[
        "x"
    ]
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
    assert record["facts"]["gallery"] == "24 items"


def test_rankings_and_scores_are_compared_and_written(run, tmp_path):
    code, out, _ = run("compare bm25.run --qrels qrels --metrics mrr --out out")
    assert code == 0
    assert "75.0 [no interval]" in out
    assert out.endswith("\nout/index.html shows the queries that differ most\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"comparison.json", "index.html"}
    code, out, _ = run("compare --scores scores.csv")
    assert code == 0
    assert "a - b  -2.5 [no interval]" in out
    (tmp_path / "seeds.csv").write_text((tmp_path / "scores.csv").read_text().replace("query", "seed"))
    code, out, _ = run("compare --scores seeds.csv")
    assert (code, out.split(".")[0]) == (0, "2 seeds")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("--labels labels.csv", 2, "FILE: Received none, expected one file or more."),
        ("no.npy --labels labels.csv", 2, "FILE: Received no.npy: no such file or folder, expected files of vectors"),
        ("a.npy --labels no.csv", 2, "--labels: Received no.csv: no such file or folder"),
        (
            "a.npy a.npy --labels labels.csv",
            2,
            "FILE: Received a.npy and a.npy, both of which are called 'a', expected",
        ),
        ("a.npy --scores scores.csv", 2, "--scores: Received FILEs beside it, expected the table alone."),
        ("a.npy --labels labels.csv --gallery a.npy", 2, "--gallery: Received one of the two, expected --gallery and"),
        (
            "a.npy --labels labels.csv --gallery a.npy a.npy --gallery-labels labels.csv",
            2,
            "--gallery: Received 2 files, expected 1, one for each FILE.",
        ),
        ("a.npy --labels labels.csv --label-column klass", 2, "Received a table without 'klass' (--label-column)"),
        ("a.npy --labels labels.csv --by site", 2, "Received a table without 'site' (--by), expected some of label, "),
        ("a.npy --labels labels.csv --out .", 2, "--out .: Received path='.', a folder with 'a.npy', which is not"),
        ("both.npz --labels labels.csv", 1, "both, both.npz: Received 2 arrays: x, y, expected one, or its name"),
        ("labels.csv --labels labels.csv", 1, "Received a file that ends in '.csv', expected .npy, .npz, .parquet"),
        ("a.npy --labels labels.csv --path-column file", 1, "Received paths with '0.png', which is no file"),
        ("--scores labels.csv", 2, "--scores labels.csv: Received a table without 'model' (--scores), 'score'"),
        ("bm25.run --qrels bm25.run", 1, "Received bm25.run, line 1: 6 words, expected 4: query 0 document grade."),
    ],
)
def test_an_error_is_one_line(run, words, code, text):
    found, out, err = run(f"compare {words}")
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert text in err


def test_drift_prints_what_has_moved_and_its_exit_code_says_so(run, tmp_path):
    days = [f"2026-03-{day:02}" for day in range(1, 15) for _ in range(5)]
    for name, first, shift in (("march", 0, 0.0), ("same", 35, 0.001), ("april", 35, -0.2)):
        rows = [f"{days[first + i]}T10:00:00Z,{0.8 + shift + 0.01 * (i % 4)}\n" for i in range(35)]
        (tmp_path / f"{name}.csv").write_text(f"time,score\n{''.join(rows)}")
    code, out, err = run("drift march.csv same.csv --json")
    assert (code, err, json.loads(out)["moved"]) == (0, "", [])
    code, out, _ = run("drift march.csv april.csv --confidence 0.99")
    assert code == 1
    assert out.splitlines()[-1] == "Moved: score."
    assert run("drift march.csv labels.csv")[0] == 2
