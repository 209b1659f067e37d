"""What to label next, on clusters whose answers are known; labels that are proposed; the page and the commands."""

import asyncio
import base64
import csv
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tests.cli.test_commands import Blocks, command_of, decode
from tests.serving.browser import tab
from tests.worlds import write_png
from tfdml import cleaning, datasets
from tfdml.cleaning import proposals, selection
from tfdml.cli.references import Reference
from tfdml.datasets.readers.label_tables import labels_of_paths


def blobs(sizes=(30, 20, 10), spread=0.1, seed=0):
    """Clusters of these sizes around the axes, and the cluster of each example."""
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    noise = np.random.default_rng(seed).normal(size=(len(cluster), len(sizes) + 3)) * spread
    noise[np.arange(len(cluster)), cluster] += 1
    return noise.astype(np.float32), cluster


def relative(x):
    """Rows less their mean, of length 1."""
    x = np.asarray(x, np.float64) - np.mean(x, axis=0)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def typical_by_definition(x, count, labeled=()):
    """Greedy maximum of sum_i max_s max(0, cos(z_i, z_s))^3, with the variances v of z as 0.9 v + 0.1 mean(v)."""
    centered = relative(x) - relative(x).mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(centered.T, bias=True))
    z = centered @ directions / np.sqrt(0.9 * variances + 0.1 * variances.mean())
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    similar, rows = np.maximum(z @ z.T, 0) ** 3, list(labeled)
    for _ in range(count):
        sums = [-1 if row in rows else similar[:, [*rows, row]].max(axis=1).sum() for row in range(len(x))]
        rows.append(int(np.argmax(sums)))
    return rows[len(labeled) :]


@pytest.mark.parametrize("batch", [4, 256])
def test_typical_examples_are_most_like_all_others_and_old_gains_do_not_change_that(batch, monkeypatch):
    monkeypatch.setattr(selection, "_BATCH", batch)
    x, _ = blobs()
    labels = np.full(60, -1)
    assert cleaning.select(x, 8, similarity=1).rows.tolist() == typical_by_definition(x, 8)
    labels[[3, 35]] = 0, 1
    assert cleaning.select(x, 5, labels=labels, similarity=1).rows.tolist() == typical_by_definition(x, 5, [3, 35])


def test_diverse_examples_are_those_of_a_greedy_k_center():
    x, _ = blobs()
    similar = relative(x) @ relative(x).T
    rows = [int(similar.mean(axis=1).argmax())]
    while len(rows) < 6:
        nearest = similar[:, rows].max(axis=1)
        nearest[rows] = np.inf
        rows.append(int(nearest.argmin()))
    chosen = cleaning.select(x, 6, rule="diverse", similarity=1)
    assert chosen.rows.tolist() == rows
    expected = [np.nan] + [similar[row, rows[:number]].max() for number, row in enumerate(rows) if number]
    np.testing.assert_allclose(chosen.similarity, expected, atol=1e-5)


def test_the_example_between_two_classes_is_uncertain():
    angles = np.radians([0, 5, 42, 80, 90, 270])
    x = np.stack([np.cos(angles), np.sin(angles), np.ones(6)], axis=1)
    labels = np.array([0, -1, -1, -1, 1, 2])
    assert cleaning.select(x, 1, labels=labels, rule="uncertain").rows.tolist() == [2]


def test_rules_take_turns_and_without_labels_only_those_that_need_none():
    x, cluster = blobs()
    assert cleaning.select(x, 4, rule="all").rules == ("typical", "diverse") * 2
    labels = np.where(np.arange(60) % 20 == 0, cluster, -1)
    assert cleaning.select(x, 4, labels=labels, rule="all").rules == ("typical", "diverse", "uncertain", "typical")


@pytest.mark.parametrize("rule", ["typical", "diverse", "uncertain", "all"])
def test_of_near_copies_one_is_chosen_and_none_of_what_has_a_label(rule):
    x = np.repeat(blobs((8, 8, 8))[0], 3, axis=0) + np.random.default_rng(1).normal(size=(72, 6)) * 1e-4
    labels = np.full(72, -1)
    labels[[0, 24]] = 0, 1
    chosen = cleaning.select(x, 12, labels=labels, rule=rule, similarity=0.999)
    originals = chosen.rows // 3
    assert len(set(originals)) == 12
    assert not {0, 8} & set(originals.tolist())
    assert (chosen.similarity < 0.999).all()


X = blobs()[0]
NONE = np.full(60, -1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, 61), {}, "Received count=61, expected 60 at most: so many examples have no label."),
        ((X, 60), {"labels": np.where(np.arange(60) < 5, 0, -1)}, "expected 55 at most"),
        ((X, 0), {}, "Received count=0"),
        ((np.ones((10, 4)), 5), {}, "Received embeddings that are all the same, expected different images"),
        ((np.repeat(X[:4], 5, axis=0), 5), {}, "Received count=5, but only 4 examples are no near copies"),
        ((X, 5), {"rule": "random"}, "rule='random'"),
        ((X, 5), {"rule": "uncertain"}, "rule='uncertain' without labels of two classes, expected 'typical' at first"),
        ((X, 5), {"similarity": 0}, "similarity=0, expected a cosine above 0"),
        ((X, 5), {"labels": NONE[:-1]}, "59"),
    ],
)
def test_what_cannot_be_selected_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        cleaning.select(*arguments, **options)


def test_proposals_have_the_stated_precision_and_leave_out_what_is_between_classes():
    rng, shares = np.random.default_rng(0), []
    for seed in range(5):
        x, cluster = blobs((300,) * 6, 0.5, seed)
        labels = np.where(rng.random(len(x)) < 0.15, cluster, -1)
        found = cleaning.propose_labels(x, labels, precision=0.9)
        assert (labels[found.rows] == -1).all()
        assert (labels[found.neighbors] == found.labels).all()
        assert (np.diff(found.probability) <= 1e-9).all()
        assert found.probability.mean() >= 0.9
        assert 100 < len(found.rows) < (labels < 0).sum()
        shares.append((found.labels == cluster[found.rows]).mean())
    assert abs(np.mean(shares) - 0.9) < 0.03


def test_the_scores_of_a_labeled_example_are_those_of_a_regression_without_it():
    x, truth = np.random.default_rng(0).normal(size=(12, 4)), np.eye(3)[np.arange(12) % 3]
    inverse = np.linalg.inv(x.T @ x + 0.1 * np.eye(4))
    predicted, margins = proposals._highest(x, inverse @ x.T @ truth, truth.argmax(axis=1), inverse)
    for row, others in enumerate(~np.eye(12, dtype=bool)):
        scores = Ridge(alpha=0.1, fit_intercept=False).fit(x[others], truth[others]).coef_ @ x[row]
        assert predicted[row] == scores.argmax()
        assert margins[row] == pytest.approx(np.diff(np.sort(scores)[-2:]).item())


def test_a_third_of_labels_that_are_alone_in_their_class_leaves_two_thirds_of_the_probability():
    x, cluster = blobs((200,) * 6, 0.25)
    labels = np.where(np.arange(len(x)) % 10 == 0, cluster, -1)
    labels[np.flatnonzero(labels >= 0)[::3]] = 100 + np.arange(40)
    assert len(cleaning.propose_labels(x, labels, precision=0.7).rows) == 0
    assert len(cleaning.propose_labels(x, labels, precision=0.6).rows) > 500


def test_no_proposal_reaches_a_precision_that_none_has():
    x = np.random.default_rng(0).normal(size=(200, 8))
    labels = np.where(np.arange(200) < 60, np.arange(200) % 5, -1)
    assert [len(column) for column in cleaning.propose_labels(x, labels, precision=0.99)] == [0] * 5


def test_labels_that_tell_nothing_are_refused():
    x, cluster = blobs()
    with pytest.raises(ValueError, match="labels of all examples"):
        cleaning.propose_labels(x, cluster)
    with pytest.raises(ValueError, match="6 labels of 3 classes, expected 10 of two classes at least"):
        cleaning.propose_labels(x, np.where(np.arange(60) % 10 == 0, cluster, -1))
    with pytest.raises(ValueError, match="12 labels of 12 classes, expected 10 of two classes at least, and two of a"):
        cleaning.propose_labels(x, np.where(np.arange(60) % 5 == 0, np.arange(60), -1))
    with pytest.raises(ValueError, match="0 labels of 0 classes"):
        cleaning.propose_labels(x, NONE)


def photo(path, level):
    write_png(path, np.random.default_rng(level).integers(level, level + 20, (10, 8, 1), "uint8"))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Function that runs a command in a folder with 24 photographs without a label, and a model."""
    monkeypatch.chdir(tmp_path)
    for number in range(24):
        photo(f"photos/{number:02}.png", 9 * number)
    Path("model").mkdir()
    Path("model/saved_model.pb").touch()
    monkeypatch.setattr(Reference, "model", lambda self: (Blocks(), decode))
    monkeypatch.setattr(datasets, "Preprocessing", lambda size: decode)
    return command_of(capsys)


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_images_are_selected_labeled_and_the_labels_are_proposed_to_others(run):
    code, printed, errors = run("select photos -n 6 --model model --similarity 1 --out to-label --json")
    assert (code, errors) == (0, "")
    selected = rows_of("to-label/selected.csv")
    chosen = [row["path"] for row in selected]
    assert [f"photos/{path}" for path in chosen] == [each["path"] for each in json.loads(printed)["selected"]]
    assert (len(set(chosen)), {row["rule"] for row in selected}) == (6, {"typical"})
    page = Path("to-label/label.html").read_text()
    assert re.findall('<input name="([^"]*)"', page) == chosen
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page  # a browser runs no other

    lines = [f"{number:02}.png,{'dark' if number < 12 else 'light'}\n" for number in range(0, 24, 2)]
    Path("photos/labels.csv").write_text("path,label\n" + "".join(lines))
    code, printed, _ = run("propose photos --labels photos/labels.csv --model model --out new.csv --precision 0.8")
    assert (code, printed) == (0, f"new.csv: {len(rows_of('new.csv'))} labels proposed for 12 images without one\n")
    for row in rows_of("new.csv"):
        assert row["label"] == ("dark" if int(row["path"][:2]) < 12 else "light") or 10 < int(row["path"][:2]) < 13
    code, _, _ = run("select photos --labels photos/labels.csv -n 3 --rule all --model model --similarity 1 --out next")
    assert code == 0
    known = json.loads(Path("next/label.html").read_text().split('id="known">')[1].split("</script>")[0])
    assert known[0] == ["00.png", "dark"]
    assert len(known) == 12


LABELED = """
const fields = [...document.querySelectorAll("input[name]")];
fields[0].value = ' a "small", dark one ';
fields[2].value = "=light";
fields[2].dispatchEvent(new Event("input", { bubbles: true }));
let saved = null;
URL.createObjectURL = (blob) => { saved = blob; return "#saved"; };
document.getElementById("save").click();
saved.text().then((text) => `${document.getElementById("count").textContent}|${text}`);
"""


@pytest.mark.slow
@pytest.mark.browser
def test_what_is_typed_on_the_page_is_a_table_that_is_read(run, tmp_path):
    async def type_labels():
        async with tab(tmp_path / "profile") as page:
            await page.call("Page.navigate", url=Path("to-label/label.html").resolve().as_uri())
            await page.until("document.getElementById('save') !== null")
            assert page.complaints == []
            return await page.value(f"(async () => {{ {LABELED.replace('saved.text()', 'return saved.text()')} }})()")

    run("select photos -n 4 --model model --similarity 1 --out to-label")
    count, _, text = asyncio.run(type_labels()).partition("|")
    assert count == "2 of 4 labeled"
    Path("photos/labels.csv").write_bytes(text.encode())
    chosen = [row["path"] for row in rows_of("to-label/selected.csv")]
    expected = {str(Path("photos", chosen[0]).resolve()): 'a "small", dark one'}
    assert labels_of_paths("photos/labels.csv") == expected | {str(Path("photos", chosen[2]).resolve()): "=light"}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("select photos -n 50 --model model --out new", "-n 50 of 24 images without a label, expected fewer"),
        ("select set.csv -n 5 --labels bad.csv --model model --out new", "with 1 path that the set does not have: ["),
        ("select photos -n 5 --labels gone.csv --model model --out new", "row that cannot be used, first 99.png: not"),
        ("select photos -n 5 --model model --out photos/new", "inside data='photos'"),
        ("select photos -n 5 --model model --out model", "a folder with 'saved_model.pb', which is not a file"),
        ("select same -n 5 --model model --out new", "embeddings that are all the same"),
        ("propose photos --model model --out new.csv", "0 labels of 0 classes, expected 10 of two"),
        ("propose photos --model model --out bad.csv", "a file that is there, expected a new one: nothing is replaced"),
        ("propose photos --model model --out new", "'new', expected the name of a .csv file"),
    ],
)
def test_a_command_that_cannot_choose_says_why_and_writes_nothing(run, command, message):
    for number in range(10):
        photo(f"same/{number}.png", 5)
    Path("set.csv").write_text("path,label\n" + "".join(f"photos/{number:02}.png,\n" for number in range(20)))
    Path("bad.csv").write_text("path,label\nphotos/03.png,a\nphotos/23.png,b\n")
    Path("gone.csv").write_text("path,label\n03.png,a\n99.png,b\n")
    before = sorted(Path().rglob("*"))
    code, printed, errors = run(command)
    assert (code, printed) == (2, "")
    assert message in errors
    assert sorted(Path().rglob("*")) == before


def test_a_proposed_label_that_a_spreadsheet_would_run_is_read_as_it_was(tmp_path):
    Path(tmp_path / "a.png").write_bytes(b"")
    lines = ["path,label,probability,similarity,neighbor", "a.png,'=x,0.9,0.8,b.png"]
    (tmp_path / "proposals.csv").write_text("\n".join(lines))
    assert labels_of_paths(str(tmp_path / "proposals.csv")) == {str(tmp_path / "a.png"): "=x"}
