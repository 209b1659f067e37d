"""Versions of a model in its folder, and configuration files of TensorFlow Serving."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from tfdml._core.atomic import atomic_write
from tfdml._core.checks import require
from tfdml._core.optional import tf
from tfdml.typing import FilePath

_MODEL = """  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
"""
_BATCHING = """max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 100 }
"""
_SAVED_MODEL = "saved_model.pb"
_FILES = (_SAVED_MODEL, "model.onnx", "model.xml", "model.tflite")


def next_version(path: FilePath) -> Path:
    """The folder of the next version of a model: `path/1`, and after it `path/2`.

    A running server, such as TensorFlow Serving, loads the new version and then unloads the old one. It never sees a
    partial model, since the folder appears under its number once it is complete.

    Example:

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> print(tfdml.export.next_version("served/products"))
        served/products/1

    Args:
        path: folder of the model; its name is the name of the model on the server. It need not exist.

    Returns:
        `path` / one more than the highest version; a `pathlib.Path`. It creates nothing.
    """
    return Path(path) / str(max(_versions(Path(path), _FILES), default=0) + 1)


def newest_version(path: FilePath) -> Path:
    """The folder of the highest version of a model: `path/2` beside `path/1`; `path` itself if it has no versions."""
    path = Path(path).expanduser()
    return path / str(max(_versions(path), default=""))


def write_serving_config(path: FilePath) -> str:
    """Write `models.config` and `batching.config` for TensorFlow Serving.

    `models.config` lists all models `path/NAME/VERSION`. By `batching.config` (you may edit it), the server answers up
    to 32 images together, of requests that arrive within two milliseconds.

    Example:

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> _ = tfdml.export.saved_model(model, tfdml.export.next_version("served/products"))
        >>> tfdml.export.write_serving_config("served")
        'docker run ...'

    Args:
        path: folder of the models.

    Returns:
        A command that serves them by Docker on this machine alone, with gRPC on port 8500 and REST on port 8501; it is
        also the first line of `models.config`.
    """
    folder = Path(path).expanduser().absolute()
    names = sorted(model.name for model in folder.glob("*") if _versions(model))
    require(bool(names), f"path={str(folder)!r} without a model NAME/VERSION", "models saved at next_version(...)")
    command = _command(folder)
    models = "".join(_MODEL.format(name=name) for name in names)
    _write(folder / "models.config", f"# {command}\nmodel_config_list {{\n{models}}}\n")
    _write(folder / "batching.config", _BATCHING)
    return command


def _versions(path: Path, files: Sequence[str] = (_SAVED_MODEL,)) -> list[int]:
    """Numbers of the versions of a model that hold one of these files."""
    folders = [file.parent for name in files for file in path.glob(f"*/{name}")]
    return [int(folder.name) for folder in folders if folder.name.isdecimal()]


def _command(folder):
    ports = "-p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501"
    options = "--model_config_file=/models/models.config --enable_batching --batching_parameters_file="
    mount = shlex.quote(f"{folder}:/models:ro")
    return f"docker run --rm {ports} -v {mount} tensorflow/serving:{tf.__version__} {options}/models/batching.config"


def _write(path, text):
    with atomic_write(path) as partial:
        partial.write_text(text)
