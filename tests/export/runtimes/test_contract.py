"""What every runtime promises: the embeddings, neighbors and matches of the SavedModel, from pixels."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tests.export.runtimes.rows import RUNTIMES
from tests.oracles import scores_of
from tfdml import datasets, export, metrics, models, search
from tfdml._core.checksums import require_checksums

pytestmark = pytest.mark.slow
THRESHOLD = 0.9999
CALIBRATION = metrics.ScoreCalibration(
    scores=(0.0, 0.7, 0.999),
    ratio=((-2.0, 0.0, 3.0),) * 3,
    rank_1=((0.5, 0.5, 1.0),) * 3,
    **{"prior": 0.3, "metric": "cosine", "model": None, "pairs": 100, "classes": 10},
)


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request):
    return RUNTIMES[request.param]


@pytest.fixture(scope="module")
def folder(runtime, model, index, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "model"
    view = datasets.Preprocessing(size=16, channels=1, fit="pad")
    options = {"index": index, "threshold": THRESHOLD, "preprocessing": view, "class_names": ["ant", "bee"]}
    options["calibration"] = CALIBRATION
    return runtime.write(model, path, **options)


@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    """The answers of a SavedModel, made once for all runtimes."""
    found = {}

    def answers(name, queries, **options):
        if name not in found:
            path = export.saved_model(model, tmp_path_factory.mktemp("served") / "model", **options)
            signatures = tf.saved_model.load(str(path)).signatures
            parts = [signatures[key](images=tf.constant(queries)) for key in ("search", "match") if key in signatures]
            found[name] = {name: value.numpy() for part in parts for name, value in part.items()}
        return found[name]

    return answers


def others(images):
    """Images that are not in the index."""
    return np.random.default_rng(1).integers(0, 256, (20, *images.shape[1:]), dtype="uint8") // 2


def require_nearest(answer, rows, vectors, queries, metric="cosine"):
    """The rows are the ten nearest, nearest first, equal vectors in the order of the index; their scores are right."""
    expected = scores_of(queries, vectors, metric)
    sign = -1 if metric == "euclidean" else 1
    np.testing.assert_allclose(sign * answer["scores"], -np.sort(-expected, axis=1)[:, :10], atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(expected, rows, 1), -np.sort(-expected, axis=1)[:, :10], atol=1e-6)
    for line in rows:
        assert len(set(line)) == 10
        assert all(line[i] < line[i + 1] for i in range(9) if (vectors[line[i]] == vectors[line[i + 1]]).all())


def texts_of(values):
    """Texts, some of which are bytes, as lists of str."""
    return np.asarray(values).astype(str).tolist()


def test_embeddings_are_those_of_the_model(runtime, folder, model, images):
    for batch in (images[:1], images[:50]):
        answer = runtime.run(folder, images=batch)
        assert answer["embedding"].dtype == np.float32
        np.testing.assert_allclose(answer["embedding"], model.predict(batch, verbose=0), atol=1e-5)


def test_ten_ids_are_those_of_exact_search_and_ties_are_in_the_order_of_the_index(
    runtime, folder, model, images, index
):
    queries = np.concatenate([images[:30], others(images)])
    answer, vectors = runtime.run(folder, images=queries), model.predict(queries, verbose=0)
    assert answer["ids"].dtype == np.int64
    require_nearest(answer, 2**30 - answer["ids"], index.vectors, vectors)
    assert (answer["ids"][:20, :2] == 2**30 - np.stack([np.arange(20), 280 + np.arange(20)], 1)).all()
    neighbors, scores = search.Exact(index.vectors, index.ids).search(vectors, k=10)
    assert (answer["ids"] == neighbors).mean() > 0.99  # all but scores that differ in their last bits
    np.testing.assert_allclose(answer["scores"], scores, atol=1e-4)


def test_an_image_that_is_not_near_enough_is_unknown(runtime, folder, images, index):
    answer = runtime.run(folder, images=np.concatenate([images[:5], others(images)]))
    is_known = answer["scores"][:, 0] >= THRESHOLD
    assert is_known[:5].all()
    assert not is_known.all()
    unknown = "unknown" if runtime.texts else "-1"
    names = [str(i) if known else unknown for i, known in zip(answer["ids"][:, 0], is_known, strict=True)]
    assert texts_of(answer["id"]) == names
    np.testing.assert_array_equal(answer["score"], answer["scores"][:, 0])


def test_an_empty_batch_has_no_neighbors(runtime, folder, images):
    if not runtime.empty:
        pytest.skip("LiteRT takes no empty batch")
    answer = runtime.run(folder, images=images[:0])
    assert {name: value.shape for name, value in answer.items()} == {
        **{"embedding": (0, 6), "ids": (0, 10), "scores": (0, 10)},
        **{"id": (0,), "score": (0,), "probability": (0,), "probabilities": (0, 10)},
    }


def test_the_folder_describes_its_model(runtime, folder, model):
    require_checksums(folder)
    described = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("runtime", "search", "versions")}
    assert described["search"]["vectors"] == 300
    view = datasets.Preprocessing(size=16, channels=1, fit="pad")
    assert json.loads((folder / "fingerprint.json").read_text()) == models.fingerprint(model, view)
    assert described["versions"]["tensorflow"] == tf.__version__
    assert described["runtime"]["inputs"] == {"images": ["uint8", [-1, 16, 16, 1]]}
    assert described["runtime"]["outputs"] == [
        *("embedding", "id", "ids", "probabilities", "probability", "score", "scores")
    ]
    assert (folder / described["runtime"]["file"]).is_file()
    view = datasets.Preprocessing.from_config(json.loads((folder / "preprocessing.json").read_text()))
    assert view == datasets.Preprocessing(size=16, channels=1, fit="pad")
    assert json.loads((folder / "class_names.json").read_text()) == ["ant", "bee"]
    assert json.loads((folder / "threshold.json").read_text()) == THRESHOLD
    assert json.loads((folder / "calibration.json").read_text()) == CALIBRATION.as_dict()


def test_probabilities_are_those_of_the_calibration(runtime, folder, images):
    answer = runtime.run(folder, images=images[:5])
    np.testing.assert_allclose(answer["probabilities"], CALIBRATION(answer["scores"]), atol=1e-5)
    np.testing.assert_allclose(answer["probability"], CALIBRATION(answer["score"]), atol=1e-5)
    assert np.ptp(answer["probabilities"]) > 0.05


def drawn(count, seed):
    """A photograph and random boxes of it, `(count, 4)`: every other one of whole numbers."""
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 0.7, (count, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0.05, 0.3, (count, 2))], axis=1) * [60, 75, 60, 75]
    boxes[::2] = np.concatenate([np.floor(boxes[::2, :2]), np.ceil(boxes[::2, 2:])], axis=1)
    return random.integers(0, 256, (75, 60, 3), dtype="uint8"), boxes.astype("float32")


VIEWS = [
    datasets.Preprocessing(size=16, boxes=True, margin=0.1),
    datasets.Preprocessing(size=(11, 12), fit="pad", fill=77, channels=1, resize=(16, 13), boxes=True, margin=0.25),
    datasets.Preprocessing(size=10, fit="crop", resize=14, boxes=True),
]


@pytest.mark.parametrize("view", VIEWS, ids=[view.fit for view in VIEWS])
def test_crops_of_boxes_are_those_of_a_set_with_boxes(runtime, view, tmp_path):
    inputs = keras.Input(view.shape)
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))  # whose embedding is its pixels
    folder = runtime.write(model, tmp_path / "model", preprocessing=view, boxes=True)
    photograph, boxes = drawn(60, seed=3)
    expected = np.stack([view((photograph, box.astype(np.float64))).numpy().ravel() for box in boxes]).astype(float)
    answer = runtime.run(folder, photograph=photograph, boxes=boxes)
    differences = np.abs(answer["embedding"] - expected)
    assert differences.max() <= 1
    assert (differences == 0).mean() > 0.99
    assert answer["valid"].all()
    others = [[5, 5, 5, 9], [9, 4, 3, 8], [0.1, 0.1, 0.5, 0.5], [0, 0, 62, 70], [-1, 0, 61, 76], [np.nan, 0, 9, 9]]
    assert runtime.run(folder, photograph=photograph, boxes=np.float32(others))["valid"].tolist() == [
        *[False] * 4,
        True,
        False,
    ]


def test_boxes_find_the_items_nearest_to_their_crops(runtime, model, images, index, tmp_path):
    gallery = search.Exact(index.vectors, index.ids, metadata={"product": np.arange(300) // 3})
    options = {"index": gallery, "search": export.ExactSearch(k=4, items="product"), "threshold": THRESHOLD}
    view = datasets.Preprocessing(size=16, channels=1, boxes=True)
    photograph = np.repeat(np.concatenate([images[20], images[21]], axis=1), 3, axis=2)
    folder = runtime.write(model, tmp_path / "model", preprocessing=view, boxes=True, **options)
    answer = runtime.run(folder, photograph=photograph, boxes=np.float32([[0, 0, 16, 16], [16, 0, 32, 16]]))
    expected, _ = gallery.search(model.predict(images[20:22], verbose=0), k=4, items="product")
    assert answer["ids"].tolist() == expected.tolist()
    described = json.loads((folder / "runtime.json").read_text())
    assert described["inputs"] == {"photograph": ["uint8", [-1, None, 3]], "boxes": ["float32", [-1, 4]]}


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
def test_other_metrics_have_their_scores(runtime, model, images, index, metric, tmp_path):
    other = SimpleNamespace(vectors=index.vectors, ids=np.arange(300), metric=metric, metadata=None)
    folder = runtime.write(model, tmp_path / "model", index=other)
    answer, vectors = runtime.run(folder, images=images[:30]), model.predict(images[:30], verbose=0)
    assert set(answer) == {"embedding", "ids", "scores"}
    require_nearest(answer, answer["ids"], index.vectors, vectors, metric)


def test_text_ids_and_metadata_are_those_of_a_saved_model_or_rows(runtime, served, model, images, index, tmp_path):
    metadata = pa.table({"price": np.arange(300) / 4, "label": [f"class {row % 3}" for row in range(300)]})
    names = np.array([f"item-{row}" for row in range(300)])
    named = SimpleNamespace(vectors=index.vectors, ids=names, metric="cosine", metadata=metadata)
    options = {"index": named, "threshold": THRESHOLD, "search": export.ExactSearch(k=3)}
    queries = np.concatenate([images[:3], others(images)])
    runtime_folder = runtime.write(model, tmp_path / "model", **options)
    answer = runtime.run(runtime_folder, images=queries)
    expected = served("texts", queries, **options)
    if not runtime.texts:
        assert set(answer) == {"embedding", "rows", "scores", "row", "score"}
        listed = [*json.loads((runtime_folder / "ids.json").read_text()), "unknown"]
        answer = {"ids": np.array(listed)[answer["rows"]], "id": np.array(listed)[answer["row"]]}
    else:
        assert set(answer) == {"embedding", *expected}
    for name in set(answer) & {"ids", "payload", "id"}:
        assert texts_of(answer[name]) == texts_of(expected[name])
    assert "unknown" in texts_of(answer["id"])


def test_each_item_is_found_once_by_its_nearest_vector(runtime, model, images, index, tmp_path):
    products = np.random.default_rng(0).zipf(1.7, 300) % 40
    gallery = search.Exact(index.vectors, 2**20 - np.arange(300), metadata={"product": products})
    options = {"index": gallery, "search": export.ExactSearch(k=6, items="product"), "threshold": THRESHOLD}
    folder = runtime.write(model, tmp_path / "model", **options)
    queries = np.concatenate([images[20:40], others(images)])
    answer = runtime.run(folder, images=queries)
    scores = scores_of(model.predict(queries, verbose=0), index.vectors)
    best = np.stack([scores[:, products == product].max(axis=1) for product in np.unique(products)], axis=1)
    np.testing.assert_allclose(answer["scores"], -np.sort(-best, axis=1)[:, :6], atol=1e-4)
    assert all(len(set(row)) == 6 for row in products[2**20 - answer["ids"]].tolist())
    ids, _ = gallery.search(model.predict(queries, verbose=0), k=6, items="product")
    assert (answer["ids"] == ids).mean() > 0.99
    assert json.loads((folder / "search.json").read_text())["items"] == len(np.unique(products))


def test_large_ids_stay_or_become_rows(runtime, model, images, index, tmp_path):
    large = SimpleNamespace(vectors=index.vectors, ids=2**60 - np.arange(300), metric="cosine", metadata=None)
    folder = runtime.write(model, tmp_path / "model", index=large)
    ids = runtime.run(folder, images=images[20:30])["ids" if runtime.texts else "rows"][:, 0]
    if not runtime.texts:
        ids = [int(json.loads((folder / "ids.json").read_text())[row]) for row in ids]
    assert list(ids) == list(large.ids[20:30])


def test_the_oldest_opset_answers_as_the_newest(model, images, index, tmp_path):
    metadata = pa.table({"product": np.arange(300) // 3, "label": [f"class {row % 3}" for row in range(300)]})
    gallery = search.Exact(index.vectors, [f"item-{row}" for row in range(300)], metadata=metadata)
    photograph, boxes = drawn(9, seed=3)
    pixels, crops = {"images": images[:30]}, {"photograph": photograph, "boxes": boxes}
    view = datasets.Preprocessing(size=16, channels=1, fit="pad", boxes=True, margin=0.25)
    rows = [
        ({"index": gallery, "search": export.ExactSearch(k=4, items="product"), "threshold": THRESHOLD}, pixels),
        ({"index": gallery, "preprocessing": view, "boxes": True}, crops),
        *(({"index": index, "search": searcher}, pixels) for searcher, _ in SEARCHES.values()),
    ]
    for options, inputs in rows:
        old, new = (
            RUNTIMES["onnx"].run(export.onnx(model, tmp_path / f"{opset}", opset=opset, **options), **inputs)
            for opset in (15, 18)
        )
        assert old.keys() == new.keys()
        for name, values in new.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(old[name], values, atol=1e-6)
            else:
                np.testing.assert_array_equal(old[name], values)


SEARCHES = {  # a search, and the errors of runtimes that do not have it
    "int8": (export.ExactSearch(k=10, dtype="int8"), {}),
    "bfloat16": (export.ExactSearch(k=10, dtype="bfloat16"), {export.litert: "bfloat16', which LiteRT does not have"}),
    "partitioned": (
        export.PartitionedSearch(k=3, cells=8, probes=3),
        {export.openvino: "OpenVINO cannot run .*ExactSearch", export.litert: "LiteRT refuses .*ExactSearch"},
    ),
}


@pytest.mark.parametrize(("searcher", "errors"), SEARCHES.values(), ids=SEARCHES)
def test_other_searches_find_the_neighbors_of_a_saved_model_or_are_refused(
    runtime, served, model, images, index, searcher, errors, tmp_path
):
    options = {"index": index, "search": searcher}
    if runtime.write in errors:
        with pytest.raises(ValueError, match=errors[runtime.write]):
            runtime.write(model, tmp_path / "model", **options)
        assert not (tmp_path / "model").exists()
        return
    answer = runtime.run(runtime.write(model, tmp_path / "model", **options), images=images[20:60])
    expected = served(searcher, images[20:60], **options)
    np.testing.assert_allclose(answer["scores"], expected["scores"], atol=1e-4 if searcher.dtype != "float32" else 1e-6)
    is_near = np.abs(np.diff(expected["scores"], axis=1, append=-1)) < 1e-5
    is_near |= np.roll(is_near, 1, axis=1)
    assert ((answer["ids"] == expected["ids"]) | is_near).mean() > 0.99


def test_an_int8_gallery_is_stored_once(runtime, model, tmp_path):
    count = 20_000
    vectors = np.random.default_rng(0).normal(size=(count, 6)).astype("float32")
    index = search.Exact(vectors)
    sizes = []
    for options in ({}, {"index": index, "search": export.ExactSearch(k=10, dtype="int8")}):
        folder = runtime.write(model, tmp_path / "model", **options)
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
    # Six codes, a step, an offset and an id of eight bytes; 30,000 bytes for the operations.
    assert sizes[1] - sizes[0] < count * (6 + 4 + 4 + 8) + 30_000


def test_a_model_of_pairs_scores_both_images(runtime, images, tmp_path):
    a, b = (keras.Input((16, 16, 1), name=name) for name in ("first", "second"))
    shared = keras.layers.Dense(3)
    flat = [shared(keras.layers.Flatten()(x)) for x in (a, b)]
    score = keras.layers.Reshape(())(keras.layers.Dot(axes=1, normalize=True)(flat))
    model = keras.Model([a, b], score)
    answer = runtime.run(runtime.write(model, tmp_path / "model"), a=images[:7], b=images[7:14])
    expected = model.predict([images[:7].astype("float32"), images[7:14].astype("float32")], verbose=0)
    np.testing.assert_allclose(answer["score"], expected, atol=1e-5)


WEIGHTS_ALONE = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method")
@pytest.mark.parametrize(("quantization", "error"), [({"config": WEIGHTS_ALONE}, 0.005), ({"mode": "int8"}, 0.01)])
def test_quantized_weights_are_exported_and_their_error_is_small(runtime, images, quantization, error, tmp_path):
    inputs = keras.Input((16, 16, 1))
    model = models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=32, widths=(4, 8)))
    precise = model.predict(images[:30], verbose=0)
    model.quantize(**quantization)
    expected = model.predict(images[:30], verbose=0)
    if runtime.write is export.litert and "mode" in quantization:
        with pytest.raises(ValueError, match=r"converter of LiteRT refuses .* quantize weights without activations"):
            runtime.write(model, tmp_path / "model")
        return
    answer = runtime.run(runtime.write(model, tmp_path / "model"), images=images[:30])
    np.testing.assert_allclose(answer["embedding"], expected, atol=1e-5 if "config" in quantization else 2e-3)
    assert 0 < np.abs(answer["embedding"] - precise).max() < error


class Igamma(keras.layers.Layer):
    """An operation that only TensorFlow has."""

    def call(self, x):
        return tf.math.igamma(tf.abs(x) + 1.0, tf.abs(x) + 0.5)

    def compute_output_shape(self, input_shape):
        return input_shape


def test_an_operation_that_a_runtime_lacks_is_named(runtime, tmp_path):
    inputs = keras.Input((4, 4, 1))
    model = keras.Model(inputs, Igamma()(keras.layers.Flatten()(inputs)))
    with pytest.raises(ValueError, match=r"a model with Igamma, which (ONNX|OpenVINO|LiteRT).* does not have"):
        runtime.write(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_other_files_stay_and_an_earlier_export_is_replaced(runtime, tmp_path):
    inputs = keras.Input((4, 4, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    folder = runtime.write(model, tmp_path / "model")
    assert runtime.write(model, folder) == folder
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        runtime.write(model, folder)
    assert (folder / "notes.txt").read_text() == "mine"


def test_options_are_checked_as_for_a_saved_model(model, index, tmp_path):
    minus = SimpleNamespace(vectors=index.vectors, ids=np.arange(-1, 299), metric="cosine", metadata=None)
    ids = np.array(["unknown", *map(str, range(299))])
    named = SimpleNamespace(vectors=index.vectors, ids=ids, metric="cosine", metadata=None)
    few = search.Exact(index.vectors, metadata={"p": np.arange(300) % 2})
    cases = [
        (export.onnx, {"opset": 14}, "opset=14"),
        (export.onnx, {"search": "exact"}, "without an index"),
        (
            export.onnx,
            {"index": index, "search": export.ExactSearch(items="p")},
            "items='p' for an index without columns",
        ),
        (export.onnx, {"index": few, "search": export.ExactSearch(k=3, items="p")}, "k=3 for an index of 2 items"),
        (export.onnx, {"preprocessing": datasets.Preprocessing(size=8)}, r"preprocessing of shape \(8, 8, 3\)"),
        (export.litert, {"index": named, "threshold": 0.5}, "the id 'unknown'"),
        (export.litert, {"index": search.Exact(index.vectors, model="0" * 64)}, "other_model=True"),
        (export.openvino, {"index": minus, "threshold": 0.5}, "the id -1"),
        (export.web, {"boxes": True}, "boxes=True, expected boxes=False: the page crops"),
        (export.web, {"runtime": tmp_path}, r"without ort\.wasm\.min\.mjs"),
    ]
    for write, options, message in cases:
        with pytest.raises(ValueError, match=message):
            write(model, tmp_path / "model", **options)


def test_versions_of_all_formats_are_counted(model, tmp_path):
    for _ in range(2):
        export.litert(model, export.next_version(tmp_path / "products"))
    assert export.next_version(tmp_path / "products").name == "3"
