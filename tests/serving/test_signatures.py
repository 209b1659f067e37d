"""The server answers the signatures of files of an export as TensorFlow Serving does; its page for an inner index."""

import asyncio

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tests.serving.quick import MODEL, PREDICT, SEARCH, answer, file, picture, started
from tests.serving.test_server import served
from tfdml import export, models, search, serving

pytestmark = pytest.mark.slow
IDS = np.array([f"item {row}" for row in range(12)])
COLUMNS = {"path": [f"/secret/{row}.png" for row in range(12)], "id": list(range(12)), "name": ["n"] * 12}


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (12, 8, 8, 1), dtype="uint8")


@pytest.fixture(scope="module")
def model(images, tmp_path_factory):
    inputs = keras.Input((8, 8, 1))
    network = models.EmbeddingModel(inputs, models.plain_cnn(inputs, dim=4, widths=(4,)))
    index = search.Exact(network.predict(images, verbose=0), IDS, metadata=pa.table(COLUMNS))
    options = {"index": index, "search": export.ExactSearch(k=3), "threshold": 0.999, "on_error": "skip"}
    return export.load(export.saved_model(network, tmp_path_factory.mktemp("served") / "model", **options))


@pytest.fixture(scope="module")
def serve(model):
    """Function that runs `story(client)` against one server."""
    with asyncio.Runner() as runner:
        client = runner.run(started(serving.application(model, model.preprocessing)))
        yield lambda story: runner.run(story(client))
        runner.run(client.close())


def png(image):
    return tf.io.encode_png(image).numpy()


BAD = file(b"no image")


def by_tensorflow(model, name, images):
    """The outputs of a signature as the REST form has them: without a name if there is one only."""
    outputs = {output: value.numpy() for output, value in model.signatures[name](images=tf.constant(images)).items()}
    texts = {output: value.astype(str) if value.dtype == object else value for output, value in outputs.items()}
    return texts if len(texts) > 1 else next(iter(texts.values()))


def require_same(actual, expected):
    """Same names, same text, same numbers but for the last bits, which depend on the batch."""
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for name, values in expected.items():
            require_same(actual[name], values)
    elif expected.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, atol=1e-5)
    else:
        assert actual == expected.tolist()


def columns_of(predictions):
    """Answers by name of answers by row."""
    named = isinstance(predictions[0], dict)
    return {name: [row[name] for row in predictions] for name in predictions[0]} if named else predictions


@served()
async def test_every_signature_of_files_has_the_answers_of_tensorflow_by_row_and_by_name(client, model, images):
    """An invalid image is marked, and the others are answered."""
    contents = [png(images[0]), b"no image", png(images[1])]
    rows = [file(content) for content in contents]
    for name in ("serve_bytes", "search_bytes", "match_bytes"):
        expected = by_tensorflow(model, name, contents)
        for form in ({"instances": rows}, {"instances": [{"images": row} for row in rows]}):
            status, found = await answer(client, PREDICT, {"signature_name": name, **form})
            assert status == 200
            require_same(columns_of(found["predictions"]), expected)
        for inputs in (rows, {"images": rows}):
            status, found = await answer(client, PREDICT, {"signature_name": name, "inputs": inputs})
            assert status == 200
            require_same(found["outputs"], expected)


@served()
async def test_the_types_of_the_signatures_of_files_are_told(client):
    _, found = await answer(client, f"{MODEL}/metadata")
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serve_bytes", "search_bytes", "match_bytes"}
    assert signatures["search_bytes"]["outputs"]["ids"] == {
        "dtype": "DT_STRING",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "3", "name": ""}], "unknown_rank": False},
        "name": "",
    }
    assert signatures["search_bytes"]["inputs"]["images"]["dtype"] == "DT_STRING"


@served()
async def test_the_page_shows_the_index_inside(client, images):
    assert (await picture(client, "/"))[0] == "text/html"
    no = ("pictures", "texts", "explains", "random_items", "learns")
    facts = {"items": 12, "dim": 4, "metric": "cosine", "threshold": 0.999, "filters": {}, "max_neighbors": 3}
    assert (await answer(client, f"{MODEL}/index"))[1] == facts | dict.fromkeys(no, False)
    status, found = await answer(client, SEARCH, {"instances": [file(png(images[5]))], "k": 2, "where": {}})
    first = found["neighbors"][0][0]
    assert (status, len(found["neighbors"][0])) == (200, 2)
    metadata = {"id": 5, "name": "n"}
    assert first == {"id": "item 5", "score": pytest.approx(1, abs=1e-5), "name": "5.png", "metadata": metadata}
    assert len((await answer(client, SEARCH, {"instances": [file(png(images[5]))]}))[1]["neighbors"][0]) == 3
    for wrong in (
        {"instances": [{"id": "item 5"}]},
        {"instances": [{"row": 5}]},
        {"instances": [BAD]},
        {"instances": [file(png(images[5]))], "where": {"id": 5}},
        {"instances": [file(png(images[5]))], "k": 4},
    ):
        assert (await answer(client, SEARCH, wrong))[0] == 400


def test_another_index_has_the_page_and_the_signatures_remain(model, images):
    index = search.Exact(models.embed(model, images), np.arange(12) + 100)

    async def story():
        client = await started(serving.application(model, model.preprocessing, index=index))
        _, found = await answer(client, SEARCH, {"instances": [file(png(images[5])), {"row": 4}], "k": 1})
        assert found["neighbors"][0][0]["id"] == 105
        _, found = await answer(client, PREDICT, {"signature_name": "match_bytes", "instances": [file(png(images[5]))]})
        assert found["predictions"][0]["id"] == "item 5"
        await client.close()

    asyncio.run(story())
