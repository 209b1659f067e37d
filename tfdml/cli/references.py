"""MODEL and INDEX: one reference tells what a word of the command line names, and opens it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from tfdml import export, search, visualize
from tfdml._core.checks import require
from tfdml._core.checksums import FILE_TYPES, SUMS, fingerprint, require_same_model
from tfdml._core.optional import has_tensorflow
from tfdml._core.stored import read_json
from tfdml.cli.arguments import PRESET
from tfdml.cli.printing import as_usage_error, say
from tfdml.datasets import Preprocessing
from tfdml.datasets.readers.item_files import without_owner
from tfdml.embedding.files import metadata_of, read_embeddings, rewrite
from tfdml.export.saved_model import CALIBRATION
from tfdml.export.serving_config import newest_version
from tfdml.metrics import ScoreCalibration
from tfdml.models import TextModel, TwoTowers
from tfdml.search.index import loading
from tfdml.training.settings_file import is_training_run
from tfdml.typing import Embedder
from tfdml.zoo.card import FILE as CARD
from tfdml.zoo.card import read_card
from tfdml.zoo.entries import MODEL, EntryRef, load_reference

Index = search.Exact | search.Scann | search.Faiss | search.Lance


@dataclass(frozen=True)
class Reference:
    """A model or an index that a word names: a path, a URL, a preset, or a name of the zoo. A run is both.

    Errors begin with the name of the argument. `view` is the JSON file of a `Preprocessing`, in place of the model's.
    """

    path: str
    view: str | None = None
    argument: str = "MODEL"
    word: str = ""  # the text of the argument, where it is not the path

    def _named(self):
        return as_usage_error(f"{self.argument}={self.word or self.path!r}")

    @cached_property
    def is_run(self) -> bool:
        """Whether the path is the folder of a run."""
        with self._named():
            return is_training_run(self.path)

    @property
    def run(self) -> Path | None:
        """The folder of a run that the path names, or a file or folder in it; None for anything else."""
        path = Path(self.path)
        with self._named():
            is_in_run = (path.parent / "index").is_dir() and is_training_run(path.parent)
        return path if self.is_run else path.parent if is_in_run else None

    @property
    def name(self) -> str:
        """The name of the folder of a run, as an address has it; "model" for any other model."""
        letters = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(self.path).resolve().name).lstrip("._-")
        return letters if letters and self.is_run else "model"

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How the file of the argument --preprocessing says that images are read; None without one."""
        with as_usage_error(f"--preprocessing {self.view}"):
            return None if self.view is None else Preprocessing.from_config(read_json(Path(self.view)))

    def model(self) -> tuple[Embedder, Preprocessing]:
        """A model that embeds images, and how it reads them."""
        view = self.preprocessing
        with self._named():
            network = None if self._is_export() else self._network(view)
            if network is not None:
                return network
            exported = export.load(self.path)
            return exported, view or exported.preprocessing

    def network(self) -> tuple[keras.Model, Preprocessing, list[str] | None]:
        """A Keras model, how it reads images, and the names of its classes where they are known."""
        view = self.preprocessing
        with self._named():
            network = self._network(view)
            expected = "what tfdml train wrote, a .keras file, or a model of the zoo; no SavedModel is exported again"
            if network is None:
                raise ValueError(f"Received no Keras model, expected {expected}.")
            names = None if self._file is not None else newest_version(self.path) / "assets.extra" / "class_names.json"
            return *network, read_json(names, list) if names is not None and names.is_file() else None

    def _is_export(self):
        """Whether the path is a SavedModel, or a run with one that can be loaded here; a run is of the zoo, too."""
        is_run_with_export = self.is_run and has_tensorflow() and any(Path(self.path).glob("*/saved_model.pb"))
        return is_run_with_export or (Path(self.path) / "saved_model.pb").is_file()

    def _network(self, view):
        """The Keras model of a file or of an entry of the zoo, and how it reads images; None without one."""
        if self._file is not None:
            model = self._file if self._pair is None else self._pair.towers[0]
            folder, name = Path(self.path).parent, Path(self.path).name
            is_of_entry = name == MODEL and all((folder / file).is_file() for file in (CARD, SUMS))  # or of a run
            if view is None and is_of_entry:
                view = read_card(folder).preprocessing
            return model, view or Preprocessing.for_model(model)
        entry = EntryRef.parse(self.path)
        if not entry.exists():
            return None
        model, own_view = load_reference(entry)
        return model, view or own_view

    @cached_property
    def _file(self):
        """The model of a .keras file or of a preset; None for what is neither."""
        if self.path.startswith(PRESET):
            return TwoTowers.from_preset(self.path.removeprefix(PRESET))
        is_file = self.path.endswith(".keras") and Path(self.path).is_file()
        return keras.saving.load_model(self.path, compile=False) if is_file else None

    @property
    def _pair(self):
        """The towers of images and of texts of a .keras file or a preset; None for other models."""
        return self._file if getattr(self._file, "tokenizer", None) is not None else None

    def texts(self) -> TextModel | None:
        """The text tower of two, or the text model in the folder of a model; None without one."""
        with self._named():
            if self._pair is not None:
                return TextModel(self._pair, fingerprint=fingerprint(*self.model()))
            entry = EntryRef.parse(self.path)
            folder = (entry.folder() if entry.exists() else Path(self.path)) / "text"
            return TextModel.load(folder) if folder.is_dir() else None

    def similarity_map(self, model: Any, served: str | None) -> Callable[..., Any] | None:
        """`visualize.similarity_map` of a model; None for an export alone. A run loads its model at the first call."""
        if isinstance(model, keras.Model):
            return partial(visualize.similarity_map, model)
        if not (Path(self.path) / MODEL).is_file():
            return None

        @cache
        def loaded():
            network, preprocessing, _ = self.network()
            require_same_model(MODEL, fingerprint(network, preprocessing), "the export", served)
            return network

        return lambda a, b: visualize.similarity_map(loaded(), a, b)

    def calibration(self, model: Any, metric: str, vectors: str | None, prior: float | None) -> ScoreCalibration | None:
        """The calibration of an export or a run for an index of a metric and a model; None where it is not known.

        A line says so if the index does not fit.
        """
        with self._named():
            calibration, file = getattr(model, "calibration", None), Path(self.path) / CALIBRATION
            if calibration is None and self.is_run and file.is_file():
                calibration = ScoreCalibration.from_dict(read_json(file))
            if calibration is None:
                require(prior is None, f"--prior {prior} for a model without a calibration", "what tfdml train wrote")
                return None
            calibration = calibration if prior is None else calibration.at(prior)
        try:
            return calibration.require(metric=metric, model=vectors)
        except ValueError as error:
            say(f"no probability beside the scores: {error}")
            return None

    def index_of_run(self) -> "Reference | None":
        """The index in the folder of a run; None without one."""
        folder = Path(self.path) / "index"
        return replace(self, path=str(folder), word=self.path) if self.is_run and folder.is_dir() else None

    def thumbnails(self) -> Callable[[], visualize.Thumbnails | None] | None:
        """Function that opens the newest thumbnails of a run; None without them."""
        path = Path(self.path) / "thumbnails.npz"

        def newest():
            return visualize.Thumbnails.load(path) if path.is_file() else None

        with self._named():
            return newest if self.is_run and newest() is not None else None

    @property
    def is_index(self) -> bool:
        """Whether a folder or a URL holds an index, or the shards of one, and no embeddings."""
        return loading.is_index(self.path)

    @cached_property
    def _embeddings(self):
        return read_embeddings(self.path)

    def index(self, model: str | None = None, *, columns: bool = True, metric: str = "cosine") -> Index:
        """An index; during a migration, the index of the model with this fingerprint.

        Embeddings become one of this metric, with their labels and paths as metadata if it has `columns`.
        """
        with self._named():
            if self.is_index:
                return search.load(self.path, model=model, other_model=True)  # compared later
            stored = self._embeddings
            table = metadata_of(stored) if columns else None
            return search.Exact(stored.embeddings, stored.rows, metadata=table, model=stored, metric=metric)

    def item(self, index: Index, id: Any) -> dict[str, Any]:
        """The columns of an item of the index, as JSON has them; without metadata, its label and path."""
        if index.metadata is not None:
            rows = index.metadata.take(index.rows([id])).to_pylist()
            return {name: as_json(row[name]) for row in rows for name in without_owner(row)}
        if self.is_index:
            return {}
        stored = self._embeddings
        row = np.searchsorted(stored.rows, id)  # rows ascend
        label = -1 if stored.labels is None else stored.labels[row]
        columns = {} if label < 0 else {"label": stored.class_names[label]}
        return columns | ({} if stored.paths is None else {"path": str(stored.paths[row])})

    def newer(self, model: str | None) -> Callable[[], Index | None]:
        """Function that returns the index of a model once its folder, URL or migration has another version."""
        seen = loading.versions_of(self.path)

        def newer():
            nonlocal seen
            before, seen = seen, loading.versions_of(self.path)
            try:
                return None if seen == before else search.load(self.path, model=model)
            except OSError:  # may pass: the next call tries again
                seen = before
                raise

        return newer

    def save(self, index: Index) -> None:
        """Write an index of the metric "dot" that was read from here, as what it was."""
        if self.is_index:
            return index.save(self.path)
        order, table = np.argsort(index.ids), cast(Any, index.metadata)
        table = table.take(order)
        columns = {name: table[name].to_pylist() for name in table.column_names}
        names = sorted({name for name in columns.get("label", ()) if name is not None})
        numbers = {None: -1} | {name: number for number, name in enumerate(names)}
        changed = replace(
            read_embeddings(self.path),
            embeddings=index.vectors[order],
            rows=index.ids[order],
            paths=np.array(columns["path"]),
            labels=np.array([numbers[name] for name in columns["label"]], np.int64) if "label" in columns else None,
            class_names=tuple(names),
            boxes=np.array(columns["box"], np.float64) if "box" in columns else None,
            files={name: columns[name] for name in FILE_TYPES},
        )
        return rewrite(self.path, changed)


def as_json(value: Any) -> Any:
    """A value of a column as JSON has it, or its text."""
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
