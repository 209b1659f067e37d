"""SavedModels that `saved_model` wrote, ready to embed sets."""

from pathlib import Path
from typing import Any

import numpy as np

from tfdml._core.atomic import read_whole
from tfdml._core.checks import require
from tfdml._core.checksums import require_checksums
from tfdml._core.optional import tf
from tfdml._core.stored import read_json
from tfdml.datasets import Preprocessing
from tfdml.export.saved_model import CALIBRATION, CHECKSUMS, FINGERPRINT, load_threshold
from tfdml.export.serving_config import newest_version
from tfdml.export.signatures import PAIR_INPUTS
from tfdml.metrics.calibration import ScoreCalibration
from tfdml.typing import FilePath


class LoadedModel:
    """A SavedModel that `tfdml.export.saved_model` wrote: see `load`.

    The export of a `tfdml.models.PairModel` is one of two inputs: its `predict_on_batch` takes a pair `(a, b)` and
    returns scores `(batch,)`, and `tfdml.search.rerank` takes it.

    Example: one that has the index of two vectors.

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> index = tfdml.search.Exact(np.eye(2, dtype="float32"), ids=[70, 71])
        >>> loaded = tfdml.export.load(tfdml.export.saved_model(model, "export", index=index))
        >>> sorted(loaded.signatures)
        ['embed', 'search', 'search_bytes', 'serve_bytes', 'serving_default']
        >>> answer = loaded.signatures["search"](images=np.array([[[[3], [4]]]], "uint8"))
        >>> answer["ids"].numpy(), answer["scores"].numpy().round(4)
        (array([[71, 70]]), array([[0.8, 0.6]], dtype=float32))

    Attributes:
        preprocessing: how images were read for the model, the `load` of sets to embed.
        class_names: names of the classes in the order of their labels; None if the export has none.
        fingerprint: the `tfdml.models.fingerprint` of the exported model with its preprocessing.
        signatures: its functions by name, such as `signatures["search"](images=images)`, from tensors to a dict of
            tensors; see `saved_model`.
        search: facts about its search, such as `{"vectors": 300, "k": 10, ...}`; None without an index.
        threshold: lowest similarity of two images that its signature `match` takes for the same; None without one.
        calibration: the `tfdml.metrics.ScoreCalibration` of its scores; None without one.
        version: number of its folder, such as 3 for "served/products/3"; 1 for a folder without a number.
    """

    def __init__(self, served: Any, folder: Path, version: int = 1):
        self._served = served
        self.signatures = dict(self._served.signatures)
        self._embed = self.signatures["serving_default"]
        extra = folder / "assets.extra"
        self.preprocessing = Preprocessing.from_config(read_json(extra / "preprocessing.json"))
        names = extra / "class_names.json"
        self.class_names = tuple(read_json(names, list)) if names.is_file() else None
        require(all(isinstance(name, str) for name in self.class_names or ()), f"{names.name} of other types", "text")
        search = extra / "search.json"
        self.search = read_json(search) if search.is_file() else None
        self.threshold = load_threshold(folder) if (extra / "threshold.json").is_file() else None
        curves = extra / CALIBRATION
        self.calibration = ScoreCalibration.from_dict(read_json(curves)) if curves.is_file() else None
        self.fingerprint = read_json(extra / FINGERPRINT, str)
        self.version = version

    def predict_on_batch(self, images: Any) -> np.ndarray:
        """Embeddings `(batch, dim)` float32 of uint8 pixels `(batch, height, width, channels)`."""
        images = tf.convert_to_tensor(images)
        shape = (None, *self.preprocessing.shape)
        received = f"images of shape {images.shape} and type {images.dtype.name}"
        require(images.dtype == "uint8" and images.shape.is_compatible_with(shape), received, f"uint8 {shape}")
        return self._embed(images=images)["embedding"].numpy()


class LoadedPairModel(LoadedModel):
    """A SavedModel of a `tfdml.models.PairModel`: `LoadedModel`, but for two inputs and scores."""

    def predict_on_batch(self, images: Any) -> np.ndarray:
        """Scores `(batch,)` float32 of a pair `(a, b)` of uint8 pixels, each `(batch, height, width, channels)`."""
        is_pair = isinstance(images, tuple | list) and len(images) == 2
        require(is_pair, f"images of type {type(images).__name__} for a model of pairs", "two batches, (a, b)")
        a, b = map(tf.convert_to_tensor, images)
        shape = (None, *self.preprocessing.shape)
        for name, x in zip(PAIR_INPUTS, (a, b), strict=True):
            received = f"{name} of shape {x.shape} and type {x.dtype.name}"
            require(x.dtype == "uint8" and x.shape.is_compatible_with(shape), received, f"uint8 {shape}")
        require(len(a) == len(b), f"{len(a)} images in a and {len(b)} in b", "one of each per pair")
        return self._embed(a=a, b=b)["score"].numpy()


def load(path: FilePath) -> LoadedModel:
    """Load a SavedModel that `saved_model` or `tfdml.callbacks.ExportBest` wrote, to embed sets.

    It needs no custom classes of the model and of its losses. Another process may export to the same folder at the same
    time; the result is then either the old or the new model. All files are first compared with the checksums in
    `assets.extra/SHA256SUMS`.

    Example: a model of images of 1 x 2 pixels; TensorFlow alone loads it, too.

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.saved_model(model, "export", class_names=("ant", "bee"))
        >>> loaded = tfdml.export.load(folder)
        >>> loaded.class_names, loaded.preprocessing.shape
        (('ant', 'bee'), (1, 2, 1))
        >>> tfdml.models.embed(loaded, np.array([[[[3], [4]]]], "uint8")).round(4)
        array([[0.6, 0.8]], dtype=float32)

    Args:
        path: folder of the SavedModel, or of its versions (see `next_version`): `load` takes the highest.
    """
    path = newest_version(path)
    return read_whole(path, lambda folder: _load(folder, path))


def _load(folder, path):
    expected = "a folder that tfdml.export.saved_model wrote. Export the model again"
    require((folder / "saved_model.pb").is_file(), f"path={str(path)!r}, which holds no SavedModel", expected)
    try:
        require_checksums(folder, CHECKSUMS)
        served = tf.saved_model.load(str(folder))
        kind = LoadedPairModel if "score" in served.signatures else LoadedModel
        return kind(served, folder, int(path.name) if path.name.isdecimal() else 1)
    except (OSError, KeyError, TypeError, ValueError, RecursionError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"Received path={str(path)!r}, a SavedModel that cannot be read ({reason}), expected {expected}."
        ) from error
