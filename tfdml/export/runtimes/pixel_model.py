"""The function of pixels that runtimes convert, and the layout of an export folder."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import keras
import numpy as np

from tfdml._core.atomic import as_writable_path, atomic_write, require_replaceable
from tfdml._core.checks import require
from tfdml._core.checksums import listed_files, write_checksums
from tfdml._core.optional import tf, version
from tfdml.datasets import Preprocessing
from tfdml.export.graph_index import are_kept
from tfdml.export.graph_search.quantized import StoredVectors
from tfdml.export.graph_search.search_option import Search
from tfdml.export.runtimes.crops import crops, inputs
from tfdml.export.saved_model import (
    as_graph_index,
    descriptions,
    fingerprint_with_index,
    fitting_preprocessing,
    image_shape,
    is_of_pairs,
    require_export_options,
    require_tensorflow,
)
from tfdml.export.signatures import PAIR_INPUTS, merged, pixel_function
from tfdml.metrics.calibration import ScoreCalibration
from tfdml.typing import FilePath, VectorIndex

RUNTIME = "runtime.json"


class RuntimeOptions(TypedDict, total=False):
    """Options of the exports to all runtimes, as `tfdml.export.saved_model` has them, and `boxes`, see `onnx`."""

    preprocessing: Preprocessing | None
    class_names: Sequence[str] | None
    threshold: float | None
    calibration: ScoreCalibration | None
    index: VectorIndex | None
    search: Search | str | None
    other_model: bool
    boxes: bool


@dataclasses.dataclass(frozen=True, eq=False)
class PixelModel:
    """A model, with its index if there is one, ready for conversion.

    `function` maps uint8 pixels, or a photograph and boxes, to a dict of tensors; on PyTorch it is the network.
    `contents` are JSON files about the model, `inputs` types and shapes by name, `outputs` sorted names.
    """

    function: Any
    contents: Mapping[str, bytes]
    inputs: Mapping[str, Any]
    outputs: Sequence[str]


def pixel_model(
    model: keras.Model,
    *,
    texts: bool = True,
    allow_empty: bool = True,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    threshold: float | None = None,
    calibration: ScoreCalibration | None = None,
    index: VectorIndex | None = None,
    search: Search | str | None = None,
    other_model: bool = False,
    boxes: bool = False,
    torch: bool = False,
) -> PixelModel:
    """The function of pixels of a model, and its descriptions; arguments as for `tfdml.export.saved_model`.

    Without `texts`, a runtime has no texts, see `GraphIndex`, and `ids.json` lists the text ids by row. `torch` says
    whether the runtime takes a model on PyTorch.
    """
    on_torch = torch and keras.backend.backend() == "torch"
    if not on_torch:
        require_tensorflow()
    expected = "a file of the model alone. Save it as model.keras, and export that with KERAS_BACKEND=tensorflow"
    require(not on_torch or (index is None and not boxes), "an index or boxes=True on PyTorch", expected)
    shape = image_shape(model)
    require_export_options(preprocessing=preprocessing, class_names=class_names, threshold=threshold)
    preprocessing = fitting_preprocessing(preprocessing, shape)
    model_fingerprint = fingerprint_with_index(model, preprocessing, index, other_model)
    graph_index = as_graph_index(index, search, model, threshold, calibration, model_fingerprint, texts=texts)
    for module in () if graph_index is None else graph_index.submodules:
        if isinstance(module, StoredVectors):
            module.block = module.codes.shape[0]  # converters would store blocks beside the whole
    contents = descriptions(preprocessing, class_names, threshold, calibration, graph_index, model_fingerprint)
    if index is not None and not are_kept(index.ids, texts) and not texts:
        contents["ids.json"] = _json([str(name) for name in np.asarray(index.ids)])
    require(not boxes or not is_of_pairs(model), "boxes=True for a model of pairs", "boxes=False")
    if on_torch:
        names, outputs = (PAIR_INPUTS, ["score"]) if is_of_pairs(model) else (("images",), ["embedding"])
        specs = {name: keras.KerasTensor((None, *shape), "uint8", name=name) for name in names}
        return PixelModel(merged(model), contents, specs, outputs)
    function = pixel_function(model, shape, graph_index, threshold, allow_empty=allow_empty)
    function = _of_boxes(function, preprocessing) if boxes else function
    specs = {spec.name: spec for spec in function.input_signature}
    return PixelModel(function, contents, specs, sorted(function.get_concrete_function().structured_outputs))


def _of_boxes(function, preprocessing):
    def answer(photograph, boxes):
        pixels, valid = crops(photograph, boxes, preprocessing)
        return {**function(pixels), "valid": valid}

    return tf.function(answer, input_signature=inputs())


@contextlib.contextmanager
def runtime_folder(
    path: FilePath, pixels: PixelModel, facts: dict[str, Any], packages: Sequence[str]
) -> Iterator[Path]:
    """Yield a folder for the files of a runtime; it replaces `path` when the block ends without an error.

    Beside them, it writes the descriptions of `pixels`, and `runtime.json` of `facts` and of the versions of
    `packages`.
    """
    path = as_writable_path(path)
    require_replaceable(path, _listed_files)
    written_by = {name: version(name) for name in packages}
    dtype = keras.backend.standardize_dtype
    inputs = {name: [dtype(spec.dtype), [-1, *spec.shape[1:]]] for name, spec in pixels.inputs.items()}
    runtime = {**facts, "written_by": written_by, "inputs": inputs, "outputs": pixels.outputs}
    with atomic_write(path, _listed_files) as folder:
        folder.mkdir()
        for name, content in {**pixels.contents, RUNTIME: _json(runtime)}.items():
            (folder / name).write_bytes(content)
        yield folder
        write_checksums(folder)


def _listed_files(folder):
    """Names of the files of an export in a folder; empty where its checksums are missing or not of an export."""
    names = listed_files(folder)
    return names if {RUNTIME, "preprocessing.json"} <= names else frozenset()


def _json(content):
    return json.dumps(content, indent=1).encode()
