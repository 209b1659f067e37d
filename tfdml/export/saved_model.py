"""SavedModels that TensorFlow Serving runs without further code."""

import json
import math
import numbers
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import keras
import tensorflow as tf

from tfdml._atomic import as_writable_path, atomic_write, recovered
from tfdml._checks import require
from tfdml.datasets import Preprocessing

_THRESHOLD = PurePosixPath("assets.extra/threshold.json")


def saved_model(
    model: keras.Model,
    path: str | os.PathLike,
    *,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    threshold: float | None = None,
    on_error: str = "fail",
    assets_extra: dict[str, bytes] | None = None,
) -> Path:
    """Write a model of images as a SavedModel with two signatures.

    * `serving_default(images)`: `(batch, height, width, channels)` uint8 pixels.
    * `serve_bytes(images)`: `(batch,)` strings, each the content of a JPEG, PNG, GIF, BMP or WebP file, read by the
      operations of `preprocessing`. If that has `boxes`, `serve_bytes(images, boxes)` also takes a float32 box
      `(batch, 4)` per file.

    Both return `{"embedding": (batch, dim) float32}`, `(0, dim)` for an empty batch. If a string is not a complete
    image or exceeds a limit, its request fails with an error that names its position in the batch; the model keeps
    serving. With `on_error="mark"`, `serve_bytes` answers the other rows and also returns `"error"`: `(batch,)`
    strings, empty for a valid image, otherwise the reason; the embedding of an invalid image is zero.

    Only the graph from the model's input to its output is written, without the optimizer and the layers of a loss.
    `tf.saved_model.load` loads the folder even if neither tfdml nor Keras is installed. The folder is written to a
    temporary name and renamed, so `path` holds a complete model at all times.

    Args:
        model: a functional Keras model with one input `(batch, height, width, channels)` of raw pixels in [0, 255],
            fixed height and width and 1 or 3 channels, and with one output `(batch, dim)`.
        path: folder to write; an older SavedModel there is replaced.
        preprocessing: how `serve_bytes` reads a file, of the shape of the model's input; the one that the model was
            evaluated with. None: `Preprocessing(size=(height, width), channels=channels)`. Its settings are written to
            `assets.extra/preprocessing.json`. Up to 8 files are decoded at the same time.
        class_names: names of the classes in the order of their labels, written to `assets.extra/class_names.json`.
        threshold: similarity from which two embeddings match, as found by `tfdml.metrics.calibrated_threshold`, written
            to `assets.extra/threshold.json`; `load_threshold` reads it.
        on_error: "fail": an invalid image fails its request; "mark": it is only marked.
        assets_extra: files to write into the folder `assets.extra`, which servers ignore: contents by relative name.

    Returns:
        The folder, a `pathlib.Path`.

    Raises:
        ValueError: a model of another form, a `preprocessing` of another shape than its input, class names that are not
            text, a threshold that is not a finite number, another `on_error`, a name outside `assets.extra`, or a
            folder at `path` that holds something other than a SavedModel.
        OSError: `path` cannot be written.
        RuntimeError: the Keras backend is not TensorFlow.
    """
    shape = _image_shape(model)
    require_export_options(
        preprocessing=preprocessing,
        class_names=class_names,
        threshold=threshold,
        on_error=on_error,
        assets_extra=assets_extra,
    )
    preprocessing = preprocessing or Preprocessing(size=shape[:2], channels=shape[2])
    expected = f"the shape of the model's input, {shape}. Change its size or channels"
    require(preprocessing.shape == shape, f"preprocessing of shape {preprocessing.shape}", expected)
    folder = as_export_path(path)
    archive = _archive(model, shape, preprocessing, on_error)
    with atomic_write(folder) as partial:
        archive.write_out(str(partial), verbose=False)
        _write_extra(
            partial / "assets.extra", {**_descriptions(preprocessing, class_names, threshold), **(assets_extra or {})}
        )
    return folder


def load_threshold(path: str | os.PathLike) -> float:
    """The threshold that `saved_model(..., threshold=)` wrote: the similarity from which two embeddings match.

    Args:
        path: folder of the SavedModel.

    Returns:
        a float.

    Raises:
        ValueError: the folder has no threshold, or its file is damaged.
    """
    file = recovered(path) / _THRESHOLD
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        found = None
    if not _is_finite(found):
        raise ValueError(
            f"Received path={str(path)!r} without a number in {_THRESHOLD}, expected a SavedModel with a threshold. "
            "Export it again with saved_model(..., threshold=)."
        )
    return float(found)


def _is_finite(number):
    return isinstance(number, numbers.Real) and not isinstance(number, bool) and math.isfinite(number)


def _descriptions(preprocessing, class_names, threshold):
    """Files that say how images were read, what the labels mean, and which embeddings match."""
    contents: dict[str, Any] = {"preprocessing.json": preprocessing.get_config()}
    if class_names is not None:
        contents["class_names.json"] = list(class_names)
    if threshold is not None:
        contents[_THRESHOLD.name] = float(threshold)
    return {name: json.dumps(content, indent=1, default=int).encode() for name, content in contents.items()}


def _archive(model, shape, preprocessing, on_error):
    """The network from the model's input to its output, with both signatures."""
    network = keras.Model(model.inputs, model.outputs)
    embed = _embedding_of_pixels(network, shape)
    archive = keras.export.ExportArchive()
    archive.track(network)
    archive.add_endpoint("serving_default", embed, [tf.TensorSpec((None, *shape), "uint8", name="images")])
    files = [tf.TensorSpec((None,), "string", name="images")]
    boxes = [tf.TensorSpec((None, 4), "float32", name="boxes")] if preprocessing.boxes else []
    archive.add_endpoint("serve_bytes", _embedding_of_files(embed, preprocessing, on_error), files + boxes)
    return archive


def _embedding_of_pixels(network, shape):
    def embed(images):
        batch = tf.shape(images)[0]
        # Optimized graphs of some layers (batch normalization) fail without rows.
        rows = tf.cond(batch == 0, lambda: tf.zeros((1, *shape), images.dtype), lambda: images)
        output = network(tf.cast(rows, network.inputs[0].dtype), training=False)
        return {"embedding": tf.cast(output[0] if isinstance(output, list) else output, "float32")[:batch]}

    return embed


def _embedding_of_files(embed, preprocessing, on_error):
    def embed_read(images, boxes=None):
        pixels, problems = preprocessing.batch_from_bytes(images, boxes)
        if on_error == "fail":
            return embed(_all_good(pixels, problems))
        embedding = embed(pixels)["embedding"]
        return {"embedding": tf.where(problems[:, None] == "", embedding, 0.0), "error": problems}

    def embed_bytes(images):
        return embed_read(images)

    return embed_read if preprocessing.boxes else embed_bytes


def as_export_path(path: str | os.PathLike) -> Path:
    """`path` as a `pathlib.Path` to which a SavedModel can be written without loss of other files.

    Raises:
        OSError: `path` cannot be written.
        ValueError: something other than a SavedModel is there.
    """
    path = as_writable_path(path)
    if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / "saved_model.pb").is_file()):
        raise ValueError(
            f"Received path={str(path)!r}, which holds something other than a SavedModel; expected a new or empty "
            "folder, or an earlier export. Choose another path, or move its contents."
        )
    return path


def _image_shape(model):
    """Height, width and channels of the model's input."""
    require_tensorflow()
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if not inputs or len(inputs) != 1 or len(outputs) != 1 or len(outputs[0].shape) != 2:
        raise ValueError(
            "Received a model that is not a functional model of one input and one output of shape (batch, dim). "
            "Build it as EmbeddingModel(inputs, outputs)."
        )
    shape = tuple(inputs[0].shape)[1:]
    if len(shape) != 3 or None in shape or shape[2] not in (1, 3):
        raise ValueError(
            f"Received a model of inputs (batch, {', '.join(map(str, shape))}), expected images "
            "(batch, height, width, channels) of fixed size and 1 or 3 channels. Pass the full shape to keras.Input."
        )
    return shape


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
    on_error: str = "fail",
    assets_extra: dict[str, bytes] | None = None,
) -> None:
    """Raise the error of an invalid or unknown option of `saved_model`."""
    known = preprocessing is None or isinstance(preprocessing, Preprocessing)
    require(known, f"preprocessing={preprocessing!r}", "a tfdml.datasets.Preprocessing or None")
    names = [] if class_names is None else class_names
    text = not isinstance(names, str) and all(isinstance(name, str) for name in names)
    require(text, f"class_names={class_names!r}", "one text per class")
    require(threshold is None or _is_finite(threshold), f"threshold={threshold!r}", "a finite number or None")
    if on_error not in ("fail", "mark"):
        raise ValueError(f"Received on_error={on_error!r}, expected 'fail' or 'mark'.")
    for name in assets_extra or {}:
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"Received {name!r} in assets_extra, expected relative names of files inside that folder.")


def _write_extra(folder, contents):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _all_good(pixels, problems):
    """The pixels; raises an error that names the first invalid image, if there is one."""
    bad = tf.cast(problems != "", tf.int32)
    place = tf.argmax(tf.concat([bad, [1]], 0))  # an index past the end for a batch without invalid images
    reason = tf.concat([problems, [""]], 0)[place]
    message = tf.strings.join(["Received at place ", tf.strings.as_string(place), " of the batch ", reason])
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(bad == 0), [message])]):
        return tf.identity(pixels)
