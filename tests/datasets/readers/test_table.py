"""Image files from CSV and Parquet files and from data frames."""

import csv

import numpy as np
import pytest
import tensorflow as tf
from pyarrow import parquet
from pyarrow import table as arrow_table

from tests.datasets.conftest import decode
from tfdml.datasets import require_disjoint, table
from tfdml.datasets.readers.text import as_names

COLUMNS = {
    "path": ["a.png", "deep/b.png", "c.png", "d.png", "e.png", "f.png"],
    "label": ["cat", "ant", "cat", "ant", "bee", "bee"],
    "split": ["train", "query", "train", "gallery", "train", "train"],
    "camera": [3, 1, 3, 2, 1, 1],
    "day": ["monday", "friday", "monday", "friday", "monday", "friday"],
    "x1": [0.0, 0.5, 1.0, 0.0, 0.0, 0.0],
    "y1": [0, 0, 1, 0, 0, 0],
    "x2": [2, 2, 3, 2, 2, 2],
    "y2": [4, 4, 4, 4, 4, 4],
}
BOX = ("x1", "y1", "x2", "y2")


class Frame:
    """What a data frame of pandas or polars has in common: `columns`, and columns by name."""

    def __init__(self, columns):
        self.columns = list(columns)
        self._columns = columns

    def __getitem__(self, name):
        return self._columns[name]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "deep").mkdir()
    for row, path in enumerate(COLUMNS["path"]):
        (tmp_path / path).write_bytes(tf.io.encode_png(np.full((4, 3, 3), row, np.uint8)).numpy())
    return tmp_path


def write_csv(root, columns, name="photos.csv", delimiter=",", encoding="utf-8"):
    with (root / name).open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return root / name


def in_form(form, root, columns):
    """The same table in another form, and the options that it needs."""
    if form == "parquet":
        parquet.write_table(arrow_table(columns), root / "photos.parquet")
        return root / "photos.parquet", {}
    if form == "csv":
        return write_csv(root, columns), {}
    if form == "tsv with a byte order mark":
        return str(write_csv(root, columns, "photos.tsv", "\t", "utf-8-sig")), {}
    arrays = {name: np.array(column) for name, column in columns.items()}
    return (arrays if form == "dict" else Frame(arrays)), {"root": root}


@pytest.mark.parametrize("form", ["csv", "tsv with a byte order mark", "parquet", "dict", "frame"])
def test_a_table_is_read_from_every_form(form, root):
    source, options = in_form(form, root, COLUMNS)
    photos = table(source, group="camera", box=BOX, load=decode, **options)
    assert photos.paths.tolist() == [str(root / path) for path in COLUMNS["path"]]
    assert photos.class_names == ("ant", "bee", "cat")
    assert photos.labels.tolist() == [2, 0, 2, 0, 1, 1]
    assert photos.groups.tolist() == COLUMNS["camera"]
    np.testing.assert_array_equal(photos.boxes, np.transpose([COLUMNS[name] for name in BOX]))
    assert photos.skipped == ()
    np.testing.assert_array_equal(photos.take([3]).examples(), np.full((1, 4, 3, 3), 3))


def test_query_and_gallery_share_their_classes_and_training_has_its_own(root):
    train, query, gallery = table(write_csv(root, COLUMNS), splits=("train", "query", "gallery"), group="day")
    assert train.class_names == ("bee", "cat")
    assert query.class_names == gallery.class_names == ("ant",)
    assert train.labels.tolist() == [1, 1, 0, 0]
    assert train.groups.tolist() == [1, 1, 1, 0]
    assert query.groups.tolist() == gallery.groups.tolist() == [0]
    require_disjoint(train, query)
    with pytest.raises(ValueError, match="1 class with examples in both set 1 and set 2"):
        require_disjoint(query, gallery)


def test_rows_of_other_splits_are_listed(root):
    (train,) = table(write_csv(root, COLUMNS), splits=["train"])
    assert len(train) == 4
    assert train.skipped == (("deep/b.png", "split 'query'"), ("d.png", "split 'gallery'"))


def test_column_names_can_be_given(root):
    renamed = dict(zip(["file", "kind", "part"], [COLUMNS[name] for name in ("path", "label", "split")], strict=True))
    (train,) = table(write_csv(root, renamed), path="file", label="kind", split="part", splits=("train",))
    assert train.class_names == ("bee", "cat")


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([10, 9, 10, 9, 100, 100], ("9", "10", "100")),
        ([1.0, 2.0, 1.0, 2.0, 3.0, 3.0], ("1", "2", "3")),
        (["7", "07", "7", "07", "a", "a"], ("07", "7", "a")),
        ([False, True] * 3, ("False", "True")),
    ],
)
def test_labels_are_text_or_whole_numbers(labels, names, root):
    photos = table({"path": COLUMNS["path"], "label": labels}, root=root)
    assert photos.class_names == names


def test_paths_without_a_root_are_those_below_the_current_folder(root, monkeypatch):
    monkeypatch.chdir(root)
    assert table(COLUMNS).paths.tolist() == COLUMNS["path"]
    write_csv(root, COLUMNS)
    assert table("photos.csv").paths.tolist() == COLUMNS["path"]


BAD_ROWS = {
    "path": ["missing.png", "../outside.png", "", "a.png", "c.png", "d.png", "e.png"],
    "label": ["cat", "cat", "cat", " ", "cat", "cat", "cat"],
    "day": [1, 1, 1, 1, "", 1, 1],
    "x1": ["1", "1", "1", "1", "1", "left", "1"],
}
BAD_OPTIONS = {"group": "day", "box": ("x1", "x1", "x1", "x1")}


def test_rows_that_cannot_be_used_are_counted_in_an_error_or_listed_with_the_reason(root):
    path = write_csv(root, BAD_ROWS)
    (root.parent / "outside.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a table of 7 rows; 5 cannot be used: 1 not a file, first missing"):
        table(path, **BAD_OPTIONS)
    photos = table(path, on_error="skip", **BAD_OPTIONS)
    assert photos.paths.tolist() == [str(root / "a.png"), str(root / "e.png")]
    assert photos.labels.tolist() == [-1, 0]
    assert photos.skipped == (
        ("missing.png", "not a file"),
        ("../outside.png", "outside root"),
        ("row 2", "no path"),
        ("c.png", "no group"),
        ("d.png", "no box"),
    )
    assert photos.describe().skipped["no path"] == 1


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan"), np.datetime64("NaT"), "", "  "])
def test_cells_of_a_frame_may_be_missing(missing, root):
    labels = np.array(["cat", missing, "cat", "ant", "ant", "None"], dtype=object)
    photos = table(Frame({"path": COLUMNS["path"], "label": labels}), root=root)
    assert photos.class_names == ("None", "ant", "cat")
    assert photos.labels.tolist() == [2, -1, 2, 1, 1, 0]


def test_an_absolute_path_is_below_its_root_or_an_error(root):
    absolute = {"path": [str(root / "a.png"), str(root / "c.png")], "label": ["cat", "ant"]}
    for folder in (root, root.parent, "/"):
        assert table(absolute, root=folder).paths.tolist() == absolute["path"]
    with pytest.raises(ValueError, match="2 outside root, first"):
        table(absolute, root=root / "deep")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"label": "class"}, r"columns 'path', 'label'.* and without 'class' \(label=\), expected these columns"),
        ({}, {"group": "g", "box": ("x1", "y1", "x2", "h")}, r"without 'h' \(box\), 'g' \(group=\)"),
        ({}, {"box": ("x1", "y1")}, r"box=\('x1', 'y1'\), expected four column names"),
        ({}, {"splits": ("train", "test")}, "no row of test that can be used.*has gallery, query, train"),
        ({}, {"splits": "train"}, "splits='train', expected different names"),
        ({}, {"on_error": "ignore"}, "on_error='ignore', expected 'error' or 'skip'"),
        ({"label": [0.5] * 6}, {}, "label 0.5, expected text or a whole number"),
        ({"label": ["cat"] * 5}, {}, "columns of 5 and 6 rows, expected the same length"),
        ({"path": [], "label": []}, {}, "a table of 0 rows, expected at least one row"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change, options, message, root):
    with pytest.raises(ValueError, match=message):
        table(COLUMNS | change, root=root, **options)


def test_a_missing_file_and_other_objects_are_refused(root):
    with pytest.raises(ValueError, match=r"nothing.csv', which is not a file, expected a table"):
        table(root / "nothing.csv")
    with pytest.raises(ValueError, match="a table of type list, expected a path, a data frame"):
        table(["a.png"])


UNREAD = r"line {} of .*photos.csv', which cannot be read"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("photos.xlsx", b"path,label", r"photos.xlsx', expected .csv, .tsv or .parquet. Read other files"),
        ("photos.csv", b"path,label\na.png,cat\nb, c.png,cat", "2 columns and more cells in 1 rows, first in row"),
        ("photos.csv", b"", "without 'path'"),
        ("photos.csv", b"path,label,path\na.png,cat,a.png", "expected different column names"),
        ("photos.csv", b"path;label\na.png;cat\n", r"line \['path;label'\], .* separated by ';', expected ','"),
        ("photos.csv", b'path,label\na.png,cat\n\n"c.png,cat\nd.png,ant\n', UNREAD.format(4) + r" \(unexp"),
        ("photos.csv", b"path,label\na.png,cat\nc.png," + b"x" * 131_073, "line 3 of .* at most 131,072 characters"),
        ("photos.csv", b'path,label\n"a.png"b,cat', UNREAD.format(2)),
        ("photos.csv", b"path,label\na.png,cat\nc.png,caf\xe9\n", "line 3 of .* the byte 0xe9, expected .* UTF-8"),
    ],
)
def test_files_that_do_not_fit_or_are_damaged_are_refused(name, content, message, root):
    (root / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        table(root / name)


@pytest.mark.parametrize(
    "damage",
    [lambda file: file[:-20], lambda file: b"", lambda file: file[:-1] + b"x"],
    ids=["cut", "empty", "changed"],
)
def test_a_damaged_parquet_file_is_named(damage, root):
    parquet.write_table(arrow_table(COLUMNS), root / "photos.parquet")
    (root / "photos.parquet").write_bytes(damage((root / "photos.parquet").read_bytes()))
    with pytest.raises(ValueError, match=r"photos.parquet', which cannot be read as Parquet"):
        table(root / "photos.parquet")


def test_a_link_below_root_leads_to_a_file_below_root_or_its_row_is_not_used(root, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (root / "a.png").rename(outside / "a.png")
    (root / "away.png").symlink_to(outside / "a.png")
    (root / "elsewhere").symlink_to(outside)
    (root / "inside.png").symlink_to("deep/b.png")
    (root / "shallow").symlink_to("deep")
    names = ["away.png", "elsewhere/a.png", "inside.png", "shallow/b.png", "c.png"]
    rows = {"path": names, "label": ["cat"] * 5}
    photos = table(rows, root=root, on_error="skip")
    assert photos.paths.tolist() == [str(root / name) for name in names[2:]]
    assert photos.skipped == tuple((name, "a link out of root") for name in names[:2])
    with pytest.raises(ValueError, match=r"2 a link out of root, first away\.png"):
        table(rows, root=root)
    (tmp_path_factory.getbasetemp() / "link").symlink_to(root)
    assert len(table({"path": names[2:], "label": ["cat"] * 3}, root=tmp_path_factory.getbasetemp() / "link")) == 3


LATIN_1 = "caf\udce9"  # as Python reads the name of a file in Latin-1


def test_rows_with_text_that_is_not_utf8_are_listed(root):
    (root / f"{LATIN_1}.png").write_bytes(b"")
    rows = {"path": [f"{LATIN_1}.png", "a.png", "c.png", "d.png"], "label": ["cat", LATIN_1, "cat", "ant"]}
    rows["day"] = ["monday", "monday", LATIN_1, "monday"]
    photos = table(rows, root=root, group="day", on_error="skip")
    assert photos.paths.tolist() == [str(root / "d.png")]
    reasons = [f"a {option} that is not UTF-8" for option in ("path", "label", "group")]
    assert photos.skipped == tuple(zip([r"caf\udce9.png", "a.png", "c.png"], reasons, strict=True))
    with pytest.raises(ValueError, match=r"1 a path that is not UTF-8, first caf\\udce9\.png"):
        table(rows, root=root, group="day")


def test_labels_of_one_class_have_one_spelling(root):
    labels = ["caf\u00e9", "cafe\u0301", " caf\u00e9", "caf\u00e9\u00a0", "caf\u00e9\t", "tea"]
    splits = ["train", "train ", "test", "test", "test", "test"]
    photos = {"path": COLUMNS["path"], "label": labels, "split": splits}
    train, test = table(photos, root=root, splits=("train", "test"))
    assert train.class_names == test.class_names == ("caf\u00e9", "tea")
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 0], [0, 0, 0, 1])


def test_labels_that_differ_in_case_only_are_named_in_one_warning(root):
    with pytest.warns(UserWarning, match="'China' and 'china', which differ") as warned:
        table({"path": COLUMNS["path"][:3], "label": ["China", "china", "Peru"]}, root=root)
    assert len(warned) == 1
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, 2.0**53, 2.0], "label 9007199254740992.0, expected whole numbers that were not converted to float64"),
        (["cat", "c" * 5000, "cat"], "a name of 5,000 characters"),
    ],
)
def test_labels_that_are_lost_or_merged_are_errors(labels, message, root):
    with pytest.raises(ValueError, match=message):
        table({"path": COLUMNS["path"][:3], "label": labels}, root=root)


def test_labels_and_groups_of_any_size_are_numbered(root):
    columns = {"path": COLUMNS["path"][:3], "label": [2**53, 2**53 + 1, 10**400], "camera": [10**30, 1, 10**30]}
    photos = table(columns, group="camera", root=root)
    assert (len(photos.class_names), len(set(photos.groups.tolist()))) == (3, 2)


def test_a_name_that_is_far_longer_than_the_others_is_an_error():
    with pytest.raises(ValueError, match=r"16,385 names, one of them of 4,096 .* expected names of similar length"):
        as_names(["cat"] * 2**14 + ["c" * 4096])


def test_a_missing_file_says_where_it_was_looked_for(root):
    (root / "lists").mkdir()
    lists = write_csv(root / "lists", COLUMNS)
    with pytest.raises(ValueError, match=r"6 not a file, first a\.png\. Files were looked for in '.*lists/', to which"):
        table(lists)
    assert len(table(lists, root=root)) == 6
    with pytest.raises(ValueError, match=r"1 with \\ in its path where this system has /, first deep\\b\.png"):
        table({"path": ["deep\\b.png"], "label": ["cat"]}, root=root)


def test_columns_of_one_name_are_named(root):
    frame = Frame({"path": COLUMNS["path"], "label": COLUMNS["label"]})
    frame.columns.append("label")
    with pytest.raises(ValueError, match=r"several columns \['label'\], expected different names"):
        table(frame, root=root)


FORMS = {
    "shares": ([(0.1, 0.1, 0.9, 0.8)] * 6, "as if in shares of the image in 6 of 6 rows, first"),
    "whole images": ([(0, 0, 1, 1)] * 6, "as if in shares of the image in 6 of 6 rows"),
    "mixed": ([(0.1, 0.1, 0.9, 0.8)] * 2 + [(1, 2, 30, 40)] * 4, "as if in shares of the image in 2 of 6 rows"),
    "COCO": ([(300, 200, 80, 90)] * 2 + [(5, 5, 30, 40)] * 4, "as if x, y, width and height in 2 of 6 rows, first"),
}


@pytest.mark.parametrize("form", FORMS)
def test_boxes_in_another_form_are_refused(form, root):
    boxes, message = FORMS[form]
    columns = dict(zip("lurb", zip(*boxes, strict=True), strict=True))
    with pytest.raises(ValueError, match=f"the columns l, u, r, b, {message}"):
        table({**COLUMNS, **columns}, root=root, box=tuple("lurb"), on_error="skip")


def test_a_few_boxes_of_one_pixel_are_taken(root):
    columns = dict(zip("lurb", zip(*[(0, 0, 1, 1), *[(1, 2, 30, 40)] * 5], strict=True), strict=True))
    assert table({**COLUMNS, **columns}, root=root, box=tuple("lurb")).boxes[0].tolist() == [0, 0, 1, 1]


def test_rows_with_an_empty_label_have_none_in_each_split(root):
    labels = ["cat", "", "cat", "ant", "ant", "None"]
    (train,) = table({**COLUMNS, "label": labels, "split": ["a"] * 3 + ["b"] * 3}, root=root, splits=("a",))
    assert (train.class_names, train.labels.tolist()) == (("cat",), [0, -1, 0])
    assert (table(COLUMNS, root=root, label=None).labels == -1).all()
