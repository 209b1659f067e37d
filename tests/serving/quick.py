"""A fast model in place of an exported one, and a client of its server."""

import base64
import io
import json
import re
import threading

import numpy as np
import tensorflow as tf
from aiohttp.test_utils import TestClient, TestServer

from tfdml.serving.embedder import signatures_of

MODEL = "/v1/models/model"
PREDICT, SEARCH, EXPLAIN, EMBEDDINGS = f"{MODEL}:predict", f"{MODEL}:search", f"{MODEL}:explain", "/v1/embeddings"
VECTORS = np.array([[1, 0], [0.9, 0.1], [0, 1], [-1, 0]], "float32")
COLUMNS = {"path": ["a.png", "b.png", "gone.png", "d.png"], "label": ["x", "x", "y", "y"]}
IDS = ["a", "b", "c", "d"]


class Quick:
    """Embeds a file as two of its bytes, and a box as its corner. Waits for `slow` files, fails for `crash`.

    Waits while it reads `large` files.
    """

    shape, dim, signatures = (2, 1, 1), 2, signatures_of(None, 2)
    go = threading.Event()
    begun = ()

    def __init__(self, model, preprocessing, limits):
        pass

    def read(self, file):
        type(self).begun += (file.content,)
        assert file.content != b"large" or self.go.wait(10)
        return (np.array(file.box[:2], "float32") if file.box else file.content), ""

    def __call__(self, images, signature):
        found = map(self.one, images)
        return [one if isinstance(one, str) else {"embedding": one} for one in found]

    def one(self, image):
        if not isinstance(image, bytes):
            return image
        if image == b"slow":
            assert self.go.wait(10)
        if image == b"crash":
            raise ArithmeticError("secret")
        if image == b"huge":
            return np.array([3e38, 3e38], "float32")
        return "no image, expected one." if image == b"bad" else np.array([image[0], image[1]], "float32")

    def picture(self, path, side):
        if path == "gone.png":
            raise tf.errors.NotFoundError(None, None, "/secret/gone.png")
        return "image/png", f"{path} of {side}".encode()


def sides(texts):
    """Vectors of texts."""
    return np.array([[-1, 0] if "left" in text else [1, 0] for text in texts], "float32")


def file(content):
    return {"b64": base64.b64encode(content).decode()}


def files(*contents):
    return {"signature_name": "serve_bytes", "instances": [file(content) for content in contents]}


async def answer(client, path, body=None, method=None, **options):
    """Status and JSON of an answer; the body is JSON, or bytes as they are."""
    data = None if body is None else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
    async with client.request(method or ("post" if data else "get"), path, data=data, **options) as response:
        return response.status, await response.json()


async def started(application):
    """A client of a server of an application."""
    client = TestClient(TestServer(application))
    await client.start_server()
    return client


async def picture(client, url, status=200, **options):
    """The type, content and headers of what is no JSON."""
    async with (client if isinstance(url, str) else client.session).get(url, **options) as response:
        assert response.status == status
        return response.content_type, await response.read(), response.headers


async def numbers(client):
    """The metrics by name."""
    async with client.get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        return dict(re.findall(r"^(\w+(?:{.*?})?) (\S+)$", await response.text(), re.MULTILINE))
