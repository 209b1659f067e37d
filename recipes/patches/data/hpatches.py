"""HPatches: patches of planar scenes under changes of light or viewpoint, from the original columns and lists."""

import functools
import json
import os
import pathlib
import struct
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

import tfdml
from recipes.checks import require
from recipes.patches.data.files import Loader, existing_paths, read_lists

COLUMN = {"column": True}  # a field with one entry per patch
FILES = ("ref", *(f"{jitter}{image}" for jitter in "eht" for image in range(1, 6)))
JITTERS = {"easy": "e", "hard": "h", "tough": "t"}
_SIDE = 65  # pixels
_HEADER = struct.Struct(">16xII")  # of a PNG file: width and height
_DECODED = 8  # columns that stay in memory
_TREE = """
hpatches-release/
    i_ajuntament/ref.png  e1.png ... e5.png  h1.png ... h5.png  t1.png ... t5.png
    v_birdwoman/ ...
tasks/, a folder of the repository hpatches-benchmark (beside the sequences, or tasks=)
    splits/splits.json
    verif_pos_split-a.csv  verif_neg_intra_split-a.csv  verif_neg_inter_split-a.csv
    retr_queries_split-a.csv  retr_distractors_split-a.csv"""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HPatches(tfdml.datasets.LabeledSet):
    """Patches of some sequences: a `LabeledSet` of `(65, 65, 1)` uint8 patches, whose classes are places of a scene.

    A column of patches is decoded when one of them is needed; `set.cached(folder)` puts all patches into one file.
    `groups` is the sequence of each patch, an index into `sequence_names`. A class has 16 patches, one of each file.

    Attributes:
        files: `(n,)` int64, the file of each patch, an index into `file_names`: the reference image, or one of five
            other images with easy (e), hard (h) or tough (t) errors of detection.
        numbers: `(n,)` int64, the place in the sequence, from 0.
        sequence_names, file_names: tuples of str.
        split_name: name of the split.
        tasks: folder of the lists of pairs and queries.
    """

    files: np.ndarray = field(metadata=COLUMN)
    numbers: np.ndarray = field(metadata=COLUMN)
    sequence_names: tuple[str, ...]
    file_names: tuple[str, ...] = FILES
    split_name: str
    tasks: pathlib.Path

    def rows(self, sequences: np.ndarray, files: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The rows of patches, by names of sequences, files and places.

        Args:
            sequences: `(k,)` str.
            files: `(k,)` str, of `file_names`.
            numbers: `(k,)` int, from 0.

        Returns:
            `(k,)` int64.

        Raises:
            ValueError: a patch that is not in the set.
        """
        keys = self._keys(self.groups, self.files, self.numbers)
        wanted = self._keys(_indices(self.sequence_names, sequences), _indices(self.file_names, files), numbers)
        order = np.argsort(keys)
        index = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        missing = np.flatnonzero(keys[order[index]] != wanted)
        first = [(str(sequences[i]), str(files[i]), int(numbers[i])) for i in missing[:1]]
        require(not len(missing), f"the patches {first} and {len(missing):,} in all", "patches of the set")
        return order[index]

    def verification_pairs(
        self, jitter: Literal["easy", "hard", "tough"], negatives: Literal["intra", "inter"]
    ) -> tfdml.datasets.PairList:
        """The pairs of the verification task: a million of each kind in the original lists, those that match first.

        Args:
            jitter: the files from which images 1 to 5 of the lists are taken.
            negatives: from the same sequence, or from any two.

        Returns:
            `PairList` whose `first` and `second` are rows of the set.

        Raises:
            ValueError: an unknown option, or a list that is missing or of another form.
        """
        require(negatives in ("intra", "inter"), f"negatives={negatives!r}", "'intra' or 'inter'")
        tables = [self._pairs(jitter, kind) for kind in ("pos", f"neg_{negatives}")]
        first, second = np.concatenate(tables, axis=1)
        return tfdml.datasets.PairList(
            None, first, second, np.repeat([True, False], [table.shape[1] for table in tables])
        )

    def retrieval_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The reference patches of the retrieval task: rows of its queries and of its distractors.

        Raises:
            ValueError: a list that is missing or of another form.
        """
        return self._references("queries"), self._references("distractors")

    def _references(self, kind):
        """Rows of a list of reference patches."""
        sequences, numbers = _table(self.tasks, f"retr_{kind}_split-{self.split_name}.csv", "s,idx")
        return self.rows(sequences, np.full(len(sequences), "ref"), numbers.astype(int))

    def _pairs(self, jitter, kind):
        """Rows of both sides of a list of pairs, `(2, pairs)`."""
        require(jitter in JITTERS, f"jitter={jitter!r}", f"one of {', '.join(map(repr, JITTERS))}")
        names = np.array(["ref", *(f"{JITTERS[jitter]}{image}" for image in range(1, 6))])
        columns = _table(self.tasks, f"verif_{kind}_split-{self.split_name}.csv", "s1,t1,idx1,s2,t2,idx2")
        sides = (columns[:3], columns[3:])
        return np.stack([self.rows(s, names[image.astype(int)], place.astype(int)) for s, image, place in sides])

    def _keys(self, sequences, files, numbers):
        return (np.asarray(sequences, np.int64) * len(self.file_names) + files) * 2**32 + numbers


def hpatches(
    root: str | os.PathLike[str],
    *,
    split: Literal["a", "b", "c", "full", "illum", "view"] = "a",
    tasks: str | os.PathLike[str] | None = None,
    load: Loader | None = None,
) -> tuple[HPatches, HPatches]:
    """HPatches: sequences with changes of light (i_...) and of viewpoint (v_...), split by sequence.

    `patches.hpatches_scores(embeddings, test)` measures its tasks.

    Args:
        root: the folder `hpatches-release` of the original archive.
        split: "a", "b" or "c" with 76 training and 40 test sequences; "full", "illum" and "view" have no training
            sequences.
        tasks: the folder `tasks` of the repository hpatches-benchmark; by default `tasks` inside or beside root.
        load: function from a patch `(65, 65, 1)` to an example; None for the patches.

    Returns:
        `(train, test)`; the set for training is empty for splits without training sequences.

    Raises:
        ValueError: a missing file, an unknown split, columns of another width, or files of a sequence with different
            numbers of patches.

    Source: Balntas, Lenc, Vedaldi, Mikolajczyk, HPatches: A Benchmark and Evaluation of Handcrafted and Learned Local
    Descriptors, CVPR 2017.
    """
    folder = pathlib.Path(tasks) if tasks is not None else _tasks_near(root)
    require(pathlib.Path(root).is_dir(), f"root={os.fspath(root)!r}, which is not a folder", f"these files:{_TREE}\n")
    splits = json.loads("\n".join(read_lists(folder, _TREE, "splits/splits.json")[0]))
    require(split in splits, f"split={split!r}", f"one of {', '.join(map(repr, list(splits)[:20]))}")
    return tuple(
        _set_of_split(root, sorted(splits[split].get(part, ())), split=split, suffix=suffix, tasks=folder, load=load)
        for part, suffix in (("train", "-train"), ("test", ""))
    )


def _tasks_near(root):
    inside = pathlib.Path(root, "tasks")
    return inside if inside.is_dir() else pathlib.Path(root).parent / "tasks"


def _set_of_split(root, sequences, *, split, suffix, tasks, load):
    names = [f"{sequence}/{file}.png" for sequence in sequences for file in FILES]
    paths = existing_paths(root, _TREE, names)
    counts = np.array([_num_patches(path) for path in paths], np.int64).reshape(-1, len(FILES))
    uneven = [name for name, row in zip(sequences, counts, strict=True) if np.ptp(row)]
    require(not uneven, f"{uneven[:1]} whose files have different numbers of patches", "equal numbers")
    per_sequence = counts[:, 0]
    numbers = np.concatenate([np.tile(np.arange(count), len(FILES)) for count in per_sequence.tolist()] or [[]])
    files = np.concatenate([np.repeat(np.arange(len(FILES)), count) for count in per_sequence.tolist()] or [[]])
    groups = np.repeat(np.arange(len(sequences)), len(FILES) * per_sequence)
    starts = np.cumsum(per_sequence) - per_sequence
    return HPatches(
        source=_Columns(paths, np.cumsum(counts.ravel())),
        labels=(starts[groups] + numbers).astype(np.int64),
        class_names=tuple(
            f"{name} {i}" for name, count in zip(sequences, per_sequence.tolist(), strict=True) for i in range(count)
        ),
        groups=groups,
        files=files.astype(np.int64),
        numbers=numbers.astype(np.int64),
        sequence_names=tuple(sequences),
        split_name=split,
        tasks=tasks,
        load=load,
        protocol=f"hpatches/split-{split}{suffix}/matching/v1",
    )


def _num_patches(path):
    """The number of patches in a column, from the header of its file."""
    with open(path, "rb") as file:
        header = file.read(_HEADER.size)
    is_png = len(header) == _HEADER.size and header.startswith(b"\x89PNG")
    width, height = _HEADER.unpack(header) if is_png else (0, 0)
    is_column = width == _SIDE and height > 0 and height % _SIDE == 0
    require(is_column, f"{str(path)!r} of {width} x {height} pixels", f"a PNG file of {_SIDE} x {_SIDE} N pixels")
    return height // _SIDE


def _table(folder, name, header):
    """The columns of a CSV file with this header, arrays of str."""
    lines = read_lists(folder, _TREE, name)[0]
    columns = header.split(",")
    rows = [line.split(",") for line in lines[1:] if line]
    is_table = lines[:1] == [header] and rows and all(len(row) == len(columns) for row in rows)
    require(
        is_table,
        f"{name} that begins with {str(lines[:2])[:200]}",
        f"the header {header} and rows of {len(columns)} cells",
    )
    return np.array(rows, str).T


def _indices(names, values):
    """The index of each value in names, which need not be sorted; -1 for an unknown one."""
    index_of = {name: index for index, name in enumerate(names)}
    unique, inverse = np.unique(values, return_inverse=True)
    return np.array([index_of.get(name, -1) for name in unique.tolist()], np.int64)[inverse]


@dataclass(frozen=True, eq=False)
class _Columns:
    """A source of the patches in columns, of which the last ones that were decoded stay in memory.

    Attributes:
        paths: `(files,)` str.
        ends: `(files,)` int64, the number of patches up to the end of each file.
    """

    paths: np.ndarray
    ends: np.ndarray

    def __len__(self):
        return int(self.ends[-1]) if len(self.ends) else 0

    def __getitem__(self, row):
        return self.__getitems__([row])[0]

    def __getitems__(self, rows):
        """The patches of rows, each `(65, 65, 1)` uint8; the column of several rows is decoded once."""
        numbers = np.arange(len(self))[np.asarray(rows, np.int64)]
        files = np.searchsorted(self.ends, numbers, side="right")
        columns = {file: _decoded(str(self.paths[file])) for file in np.unique(files).tolist()}
        inside = numbers - self.ends[files]  # negative, from the end of the column
        return [columns[file][index] for file, index in zip(files.tolist(), inside.tolist(), strict=True)]


@functools.lru_cache(maxsize=_DECODED)
def _decoded(path):
    """The patches of a column, `(patches, 65, 65, 1)` uint8."""
    import tensorflow as tf

    pixels = tf.io.decode_png(tf.io.read_file(path), channels=1).numpy()
    return pixels.reshape(-1, _SIDE, _SIDE, 1)
