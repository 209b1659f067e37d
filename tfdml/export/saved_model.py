"""SavedModels that TensorFlow Serving runs without further code."""

import json
import math
import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import keras

from tfdml._core.atomic import as_writable_path, atomic_write, recovered, require_replaceable
from tfdml._core.checks import require, require_one_of
from tfdml._core.checksums import fingerprint, is_listable, listed_files, require_same_model, write_checksums
from tfdml._core.optional import environment
from tfdml.datasets import Preprocessing
from tfdml.export.graph_index import GraphIndex
from tfdml.export.graph_search.search_option import Search, as_search
from tfdml.export.signatures import PAIR_INPUTS, archive_of, pair_archive_of
from tfdml.export.warm_up import write_warm_up
from tfdml.metrics.calibration import ScoreCalibration
from tfdml.typing import FilePath, VectorIndex

CHECKSUMS = "assets.extra/SHA256SUMS"
FINGERPRINT, CALIBRATION = "fingerprint.json", "calibration.json"  # in assets.extra
_THRESHOLD = PurePosixPath("assets.extra/threshold.json")


def saved_model(
    model: keras.Model,
    path: FilePath,
    *,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    threshold: float | None = None,
    calibration: ScoreCalibration | None = None,
    index: VectorIndex | None = None,
    search: Search | str | None = None,
    on_error: str = "error",
    assets_extra: dict[str, bytes] | None = None,
    other_model: bool = False,
) -> Path:
    """Write a model of images as a SavedModel, with an index if there is one.

    * `serving_default(images)`: `(batch, height, width, channels)` uint8 pixels.
    * `serve_bytes(images)`: `(batch,)` strings, each the content of a JPEG, PNG, GIF, BMP or WebP file, read by the
      operations of `preprocessing`. If it has `boxes`, `serve_bytes(images, boxes)` also takes a float32 box
      `(batch, 4)` per file.
    * `embed(images)`: the network's own input, `(batch, height, width, channels)` of the type of the model's input, for
      pixels in [0, 255] that were read and resized elsewhere, without rounding.
    * with `index`, `search(images)` and `search_bytes(images)`: the nearest vectors of the index.
    * with `index` and `threshold`, `match(images)` and `match_bytes(images)`: the nearest vector, if it is near enough.

    The first three return `{"embedding": (batch, dim) float32}`, `(0, dim)` for an empty batch. `search` returns
    `"ids"`, `(batch, k)` int64 or strings as in the index, `"scores"`, `(batch, k)` float32, nearest first, and for an
    index with metadata `"payload"`, `(batch, k)` strings: the metadata of the neighbor, a JSON object. `match` returns
    `"id"`, `(batch,)` strings: the id of the nearest vector where its similarity (for "euclidean" minus the distance)
    is at least `threshold`, else "unknown"; and its `"score"`, `(batch,)` float32. With `calibration`, both return the
    probabilities of the scores, too: `"probabilities"` and `"probability"`.

    A `tfdml.models.PairModel` of images has signatures of two inputs, `serving_default(a, b)`, `serve_bytes(a, b)` and
    `score(a, b)` in place of `embed`, each of as many images in a as in b. They return `{"score": (batch,) float32}`.

    If a string is not a complete image or exceeds a limit, its request fails with an error that names its position in
    the batch; the model keeps serving. With `on_error="skip"`, the signatures of files answer the other rows and also
    return `"error"`: `(batch,)` strings, empty for a valid image, otherwise the reason; the embedding and the scores of
    an invalid image are zero, its ids -1 or empty.

    It writes only the graph from the model's input to its output, without the optimizer and the layers of a loss. If
    float16 holds all float32 weights exactly, the file stores them in float16; each request casts them to float32.
    `tf.saved_model.load` loads the folder without tfdml and Keras. `path` holds a complete model at all times. Beside
    the settings named below, `assets.extra` holds the versions of the packages (`versions.json`), the
    `tfdml.models.fingerprint` of model and preprocessing (`fingerprint.json`), facts about the search (`search.json`),
    a request per signature for a server that loads the model, and `SHA256SUMS` for `load`.

    See also: `onnx`, `openvino`, `litert` and `web` for other runtimes, `next_version` for a server that is running.

    Example: a model that scales images of 1 x 2 pixels to norm 1.

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.saved_model(model, "export", threshold=0.8)
        >>> sorted(path.name for path in folder.iterdir())
        ['assets', 'assets.extra', 'fingerprint.pb', 'saved_model.pb', 'variables']
        >>> pixels = np.array([[[[3], [4]]]], "uint8")
        >>> tfdml.export.load(folder).predict_on_batch(pixels).round(4)
        array([[0.6, 0.8]], dtype=float32)

    Args:
        model: a functional Keras model with one input `(batch, height, width, channels)` of raw pixels in [0, 255],
            fixed height and width and 1 or 3 channels, and with one output `(batch, dim)`; or with two such inputs of
            one shape and the output `(batch,)`, as a `PairModel`.
        path: folder to write, or a link to it; the folder is returned. It replaces an earlier export without other
            files.
        preprocessing: how `serve_bytes` reads a file, of the shape of the model's input; the one that the model was
            evaluated with. None: `Preprocessing(size=(height, width), channels=channels)`. It writes its settings to
            `assets.extra/preprocessing.json`. The graph decodes up to 8 files at the same time.
        class_names: names of the classes in the order of their labels, written to `assets.extra/class_names.json`.
        threshold: lowest similarity of two embeddings that match, see `tfdml.metrics.calibrated_threshold`, written to
            `assets.extra/threshold.json`.
        calibration: of the scores of this model and of the metric of `index`, written to
            `assets.extra/calibration.json`.
        index: a `tfdml.search` index of embeddings of this model, written into the SavedModel; None: no search.
        search: how the graph searches: `ExactSearch()`, `PartitionedSearch()` or `ScannSearch()`, with its settings, or
            by name "exact" (None), "partitioned" or "scann".
        on_error: "error": an invalid image fails its request; "skip": it is skipped and marked. A server that batches
            fails all requests of a batch together, so use "skip" there.
        assets_extra: files to write into the folder `assets.extra`; servers ignore it: contents by relative name.
        other_model: whether to accept an index that states another model.

    Raises:
        ValueError: a model, `preprocessing` and index that do not fit each other, an index of fewer than k vectors, an
            id "unknown" beside a threshold, or an index or boxes for a model of pairs.
        FileExistsError: the folder at `path` holds a file, by name, that is not part of an export.
        RuntimeError: the Keras backend is not TensorFlow.
    """
    require_tensorflow()
    shape = image_shape(model)
    require_export_options(
        preprocessing=preprocessing,
        class_names=class_names,
        threshold=threshold,
        on_error=on_error,
        assets_extra=assets_extra,
    )
    preprocessing = fitting_preprocessing(preprocessing, shape)
    folder = as_export_path(path)
    model_fingerprint = fingerprint_with_index(model, preprocessing, index, other_model)
    graph_index = as_graph_index(index, search, model, threshold, calibration, model_fingerprint)
    archive, signatures = _archive(model, preprocessing, on_error, graph_index, threshold)
    contents = descriptions(preprocessing, class_names, threshold, calibration, graph_index, model_fingerprint)
    with atomic_write(folder, _listed_files) as partial:
        archive.write_out(str(partial), verbose=False)
        for name, content in {**contents, **(assets_extra or {})}.items():
            file = partial / "assets.extra" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        names = PAIR_INPUTS if is_of_pairs(model) else ("images",)
        inputs = {name: x.dtype for name, x in zip(names, model.inputs, strict=True)}
        write_warm_up(partial / "assets.extra", signatures, preprocessing, inputs)
        write_checksums(partial, CHECKSUMS)
    return folder


def load_threshold(path: FilePath) -> float:
    """The threshold that `saved_model(..., threshold=)` wrote; a ValueError if there is none, or it is damaged."""
    file = recovered(Path(path)) / _THRESHOLD
    try:
        threshold = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        threshold = None
    if not _is_finite(threshold):
        raise ValueError(
            f"Received path={str(path)!r} without a number in {_THRESHOLD}, expected a SavedModel with a threshold. "
            "Export it again with saved_model(..., threshold=)."
        )
    return float(threshold)


def _is_finite(number):
    try:
        return isinstance(number, numbers.Real) and not isinstance(number, bool) and math.isfinite(number)
    except OverflowError:  # a whole number beyond float64
        return False


def is_of_pairs(model: keras.Model) -> bool:
    """Whether a model gives scores `(batch,)` of two inputs."""
    return len(model.inputs) == 2 and len(model.outputs) == 1 and len(model.outputs[0].shape) == 1


def _archive(model, preprocessing, on_error, graph_index, threshold):
    if not is_of_pairs(model):
        options = {"graph_index": graph_index, "threshold": threshold}
        return archive_of(model, preprocessing=preprocessing, on_error=on_error, **options)
    require(not preprocessing.boxes, "a preprocessing with boxes for a model of pairs", "one of whole images")
    return pair_archive_of(model, preprocessing=preprocessing, on_error=on_error)


def fitting_preprocessing(preprocessing: Preprocessing | None, shape: tuple[int, int, int]) -> Preprocessing:
    """The preprocessing, or the one that stretches images to the model's input; a ValueError for another shape."""
    preprocessing = preprocessing or Preprocessing(size=shape[:2], channels=shape[2])
    expected = f"the shape of the model's input, {shape}. Change its size or channels"
    require(preprocessing.shape == shape, f"preprocessing of shape {preprocessing.shape}", expected)
    return preprocessing


def as_graph_index(
    index: VectorIndex | None,
    search: Search | str | None,
    model: keras.Model,
    threshold: float | None,
    calibration: ScoreCalibration | None,
    model_fingerprint: str,
    *,
    texts: bool = True,
) -> GraphIndex | None:
    """The index inside the graph, see `GraphIndex`; None if there is none."""
    if calibration is not None:
        calibration.require(metric=getattr(index, "metric", calibration.metric), model=model_fingerprint)
    expected = "a model that embeds images. tfdml.search.rerank scores the neighbors of its search by a model of pairs"
    require(index is None or not is_of_pairs(model), "an index for a model of pairs", expected)
    require(index is not None or search is None, f"search={search!r} without an index", "index=")
    if index is None:
        return None
    dim, has_threshold = model.outputs[0].shape[1], threshold is not None
    graph_index = GraphIndex(index, as_search(search), dim, matches=has_threshold, texts=texts, calibration=calibration)
    if threshold is not None:
        graph_index.require_no_unknown()
    return graph_index


def fingerprint_with_index(
    model: keras.Model, preprocessing: Preprocessing, index: VectorIndex | None, other_model: bool
) -> str:
    """The fingerprint of a model and its preprocessing; a ValueError for an index of another one."""
    model_fingerprint = fingerprint(model, preprocessing)
    index_fingerprint = getattr(index, "fingerprint", None)
    require_same_model("an export", model_fingerprint, "the index", index_fingerprint, other_model=other_model)
    return model_fingerprint


def descriptions(
    preprocessing: Preprocessing,
    class_names: Sequence[str] | None,
    threshold: float | None,
    calibration: ScoreCalibration | None,
    graph_index: GraphIndex | None,
    model_fingerprint: str,
) -> dict[str, bytes]:
    """Contents of the JSON files of `assets.extra`: of model and preprocessing, search, class names, threshold."""
    versions = environment()["versions"].split(", ")
    contents: dict[str, Any] = {"preprocessing.json": preprocessing.get_config(), FINGERPRINT: model_fingerprint}
    contents["versions.json"] = dict(version.split(" ") for version in versions)
    if graph_index is not None:
        contents["search.json"] = graph_index.description
    if class_names is not None:
        contents["class_names.json"] = list(class_names)
    if threshold is not None:
        contents[_THRESHOLD.name] = float(threshold)
    if calibration is not None:
        contents[CALIBRATION] = calibration.as_dict()
    return {name: json.dumps(content, indent=1, default=_plain).encode() for name, content in contents.items()}


def _plain(value):
    """A value that JSON does not know: a dict that TensorFlow has wrapped, or a number of NumPy."""
    return dict(value) if isinstance(value, Mapping) else int(value)


def as_export_path(path: FilePath) -> Path:
    """`path` as a `pathlib.Path` where a SavedModel fits without loss of other files."""
    path = as_writable_path(path)
    require_replaceable(path, _listed_files)
    return path


def _listed_files(folder):
    """Names of the files of the export in a folder; empty where its checksums are missing or not of an export."""
    names = listed_files(folder, CHECKSUMS)
    return names if {"saved_model.pb", "assets.extra/versions.json"} <= names else frozenset()


def image_shape(model: keras.Model) -> tuple[int, int, int]:
    """Height, width and channels of the model's input, or of both its inputs."""
    _require_form(model)
    shapes = {tuple(x.shape)[1:] for x in model.inputs}
    require(len(shapes) == 1, f"a model of pairs of inputs {sorted(shapes, key=str)}", "both of one shape")
    (shape,) = shapes
    if len(shape) != 3 or None in shape or shape[2] not in (1, 3):
        raise ValueError(
            f"Received a model of inputs (batch, {', '.join(map(str, shape))}), expected images "
            "(batch, height, width, channels) of fixed size and 1 or 3 channels. Pass the full shape to keras.Input."
        )
    return shape


def _require_form(model):
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    embeds = inputs and len(inputs) == 1 and len(outputs) == 1 and len(outputs[0].shape) == 2
    if not embeds and not (inputs and is_of_pairs(model)):
        raise ValueError(
            "Received a model that is not a functional model of one input and one output of shape (batch, dim). "
            "Build it as EmbeddingModel(inputs, outputs), or as PairModel(decision, branches) of two inputs and scores "
            "(batch,)."
        )


def require_tensorflow() -> None:
    """Raise a RuntimeError unless the Keras backend is TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"Received a model on the {keras.backend.backend()!r} backend, expected 'tensorflow': a SavedModel holds "
            "TensorFlow operations. Save with model.save('model.keras') and load it with KERAS_BACKEND=tensorflow."
        )


def require_export_options(
    *,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    threshold: float | None = None,
    on_error: str = "error",
    assets_extra: dict[str, bytes] | None = None,
) -> None:
    """Raise the error of an invalid or unknown option of `saved_model`."""
    is_preprocessing = preprocessing is None or isinstance(preprocessing, Preprocessing)
    require(is_preprocessing, f"preprocessing={preprocessing!r}", "a tfdml.datasets.Preprocessing or None")
    names = [] if class_names is None else class_names
    are_texts = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    require(are_texts, f"class_names={class_names!r}", "one text per class")
    require(threshold is None or _is_finite(threshold), f"threshold={threshold!r}", "a finite number or None")
    require_one_of(("error", "skip"), on_error=on_error)
    for name in assets_extra or {}:
        expected = "relative names of files inside that folder, of letters, digits, '.', '_' and '-'"
        require(is_listable(name), f"{name!r} in assets_extra", expected)
