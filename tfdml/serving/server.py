"""The HTTP server: routes and their handlers."""

import asyncio
import hashlib
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

import numpy as np
from aiohttp import web

from tfdml._core.checks import require, require_whole
from tfdml._core.checksums import fingerprint, require_same_model
from tfdml._core.optional import tf
from tfdml._core.pages import style_sheet
from tfdml.datasets import Preprocessing
from tfdml.serving import rest
from tfdml.serving.batching import Batcher, Turns, all_of, in_thread
from tfdml.serving.bodies import listed, require_request
from tfdml.serving.embedder import EMBEDDING, PIXELS, Embedder
from tfdml.serving.index_records import SEARCH, IndexRecords, VectorSearch, model_index
from tfdml.serving.limits import PARALLEL_FILES, Limits, RefusedError
from tfdml.serving.middleware import BODY, HTTP_LOG, LIMITS, Middleware
from tfdml.serving.monitoring import Monitor, RecallCheck
from tfdml.serving.queries import TextQuery
from tfdml.typing import Embedder as ImageModel
from tfdml.typing import FilePath

_NAMES = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_PICTURE_SIDE = 192  # pixels
_SECONDS_BETWEEN_LOOKS = 1.0  # for a newer index
_MAX_PICTURES = 2_000  # of about 10 kB each
_PAGE = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}


def application(
    model: ImageModel,
    preprocessing: Preprocessing,
    *,
    name: str = "model",
    version: int = 1,
    index: Any = None,
    thumbnails: Mapping[Any, bytes] | Callable[[], Mapping[Any, bytes] | None] | None = None,
    newer: Callable[[], Any] | None = None,
    limits: Limits | None = None,
    batch_size: int = 32,
    item_column: str | None = None,
    other_model: bool = False,
    log: FilePath | None = None,
    texts: Callable[[list[str]], np.ndarray] | None = None,
    root: FilePath | None = None,
    similarity_map: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
    calibration: Any = None,
    check_recall: float = 0.0,
    dimensions: Sequence[int] = (),
) -> web.Application:
    """The server of a model, as an application of aiohttp.

    See also: `run` to serve it, `tfdml.export.saved_model` for TensorFlow Serving.

    Example: the addresses of a model of images with an index of two vectors.

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> index = tfdml.search.Exact(np.eye(2, dtype="float32"))
        >>> view = tfdml.datasets.Preprocessing(size=(1, 2), channels=1)
        >>> app = tfdml.serving.application(model, view, name="pairs", index=index)
        >>> [route.canonical for route in app.router.resources() if "pairs:" in route.canonical]
        ['/v1/models/pairs:predict', '/v1/models/pairs:search', '/v1/models/pairs:explain']

    Args:
        model: a model of `tfdml.export.load`, whose signatures of files are answered, or a Keras model of images.
        preprocessing: how the model's images are read, such as `model.preprocessing`.
        name: name of the model in addresses: letters, digits, dots, hyphens and underscores.
        version: number of the model's version in addresses, such as `model.version`.
        index: an index of `tfdml.search` for neighbors; None for the index inside the model, if it has one.
        thumbnails: JPEGs of items of `index` by id, such as `tfdml.visualize.Thumbnails.load(...)`; None for pictures
            of the files in its column `path`. A function returns those of the index, and is called again for a newer
            one.
        newer: function that returns a newer version of `index`, or None, called each second in a thread: requests that
            come after it are answered by the newer index, requests in flight by the earlier one. An error is a warning,
            and the earlier index stays. `tfdml serve` follows the folder of its index; None for an index that stays.
        limits: limits of requests; None for `Limits()`.
        batch_size: maximum number of images that the model embeds at the same time, of all requests together.
        item_column: column of `index` with the item of each vector: each item is found once, by its nearest vector.
        other_model: accept an index that was built with another model or preprocessing.
        log: a table, `.csv`, to which each searched image adds a line for `tfdml drift`; None: none.
        texts: function from texts to their vectors in the space of the model, such as a `tfdml.models.TextModel`: the
            search in `index` takes texts, too. None: it refuses them.
        root: folder that replaces the one of the index's files; None: where they were.
        similarity_map: function from two images to the shares of their places in their cosine, such as
            `functools.partial(tfdml.visualize.similarity_map, model)`, for `:explain`. None: the server refuses it.
        calibration: a `tfdml.metrics.ScoreCalibration` of the scores: a `probability` stands beside the score of each
            neighbor of an image or an item. None: none.
        check_recall: share of the searches in `index` that are also made exactly, after their answer and in 1% of the
            time of a core at most: `/metrics` has a histogram of their recall, and `log` a column.
        dimensions: further sizes of an embedding that `/v1/embeddings` answers, of a model whose first numbers are an
            embedding by themselves (`tfdml.losses.MatryoshkaLoss`). They are scaled to norm 1.

    Raises:
        ValueError: a model that does not embed images of `preprocessing`, an index or texts of another dim or of
            another model, a calibration of another metric or model.
    """
    require(re.fullmatch(_NAMES, name) is not None, f"name={name!r}", "letters, digits, dots, hyphens and underscores")
    require_whole("version", version, 0)
    limits = limits or Limits()
    embedder, monitor = Embedder(model, preprocessing, limits), Monitor(log)
    require(index is not None or not thumbnails, "thumbnails without index", "index, whose ids they have")
    require(index is not None or item_column is None, f"item_column={item_column!r} without index", "index")
    text = _fingerprint(model, preprocessing)
    require_same_model("texts", getattr(texts, "fingerprint", None), "the server", text)
    dim = embedder.dim if texts is None else getattr(texts, "dim", None) or texts(["a text"]).shape[1]
    require(dim == embedder.dim, f"texts of dim {dim}", f"{embedder.dim} as of the model's embeddings")

    def records_of(index):
        require_same_model("a server", text, "the index", getattr(index, "fingerprint", None), other_model=other_model)
        pictures = thumbnails() if callable(thumbnails) else thumbnails
        return None if index is None else _index_records(embedder.dim, index, pictures, item_column, root)

    records = records_of(index)
    names = name, str(version), text
    server = _Server(embedder, records, model_index(model), names, limits, batch_size, monitor, texts)
    server.threshold, server.similarity_map = getattr(model, "threshold", None), similarity_map
    if calibration is not None:
        searched = (records or server.model_index).description["metric"]
        server.calibration = calibration.require(metric=searched, model=text, other_model=other_model)
    server.recall, server.dimensions = RecallCheck(check_recall), tuple(sorted(dimensions, reverse=True))
    for size in server.dimensions:
        require(0 < size < embedder.dim, f"dimensions={size}", f"sizes below {embedder.dim}, as of the model")
    middleware = Middleware(limits, monitor)
    handling = {"logger": HTTP_LOG}  # anyone can send bytes that are no HTTP: they are not logged
    app = web.Application(middlewares=[middleware.answer, middleware.limit], handler_args=handling)
    app[LIMITS] = limits
    app.add_routes(server.routes())
    if newer is not None:
        app.cleanup_ctx.append(partial(server.follow, lambda: records_of(newer())))
    app.on_cleanup.append(server.close)
    return app


def _fingerprint(model, preprocessing):
    """The fingerprint of a model with its preprocessing; None for a function of images that has none."""
    is_known = hasattr(model, "fingerprint") or hasattr(model, "weights")
    return fingerprint(model, preprocessing) if is_known else None


def _index_records(dim, *options):
    records = IndexRecords(*options)
    expected = f"{dim} as of the model's embeddings. Embed the items of the index with this model"
    require(records.dim == dim, f"an index of dim {records.dim}", expected)
    return records


class _Server:
    """Handlers of the routes.

    The model and the index are used by one thread, pictures and JSON by another each. The event loop does nothing that
    grows with a request or with the index.
    """

    def __init__(self, embedder, records, model_index, names, limits, batch_size, monitor, texts):
        self._embedder, self.model_index, self._limits = embedder, model_index, limits
        self.calibration, self.recall, self.dimensions = None, RecallCheck(0.0), ()
        self._name, self._version, self._fingerprint = names
        self._monitor, self._began, self.threshold, self.similarity_map = monitor, None, None, None
        self._pools = {use: ThreadPoolExecutor(1, use) for use in ("model", "json", "pictures")}
        self._files = Turns(embedder.read, PARALLEL_FILES)
        self._answers = {
            name: Batcher(partial(self._answer_batch, name), batch_size, self._pools["model"])
            for name in {signature.pixels for signature in embedder.signatures.values()}
        }
        self._created = int(time.time())
        self._texts = texts and Batcher(lambda batch: list(texts(batch)), batch_size, self._pools["model"])
        self._require_texts = getattr(texts, "require", lambda texts: None)
        self._take_over = lambda records: (records, Batcher(records, batch_size, self._pools["model"]))
        self._records, self._search = self._take_over(records)
        self._picture = lru_cache(_MAX_PICTURES)(lambda path, _, *box: embedder.picture(path, _PICTURE_SIDE, *box))

    def routes(self):
        model = f"/v1/models/{self._name}"
        version = f"{model}/versions/{self._version}"
        routes = [web.get("/healthz", self.health), web.get("/metrics", self.metrics)]
        routes += [web.get("/v1/models", self.served_models), web.post("/v1/embeddings", self.embeddings)]
        for address in (model, version):
            routes += [web.get(address, self.status), web.get(f"{address}/metadata", self.metadata)]
            routes += [web.post(f"{address}:predict", self.predict)]
        if self._records is not None:
            routes += [web.post(f"{model}:search", self.search), *self._page_routes(model)]
            routes += [web.post(f"{model}:explain", self.explain)]
            routes += [web.get(model + "/pictures/{id:[^/]+}", self.picture)]
            routes += [web.get(f"{model}/items", self.items)]
            routes += [web.get(model + "/items/{id:[^/]+}/thumbnail", self.thumbnail)]
        elif self.model_index is not None:
            routes += [web.post(f"{model}:search", self.search_in_model), *self._page_routes(model)]
        return routes

    def _page_routes(self, model):
        page = [web.get(f"/{address}", self._file(*file)) for address, file in _PAGE.items()]
        return [*page, web.get(f"{model}/index", self.index)]

    async def follow(self, newer_records, app):
        """Take newer versions of the index over, until the server ends."""
        following = asyncio.create_task(self._follow(newer_records))
        yield
        following.cancel()

    async def _follow(self, newer_records):
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            try:
                records = await asyncio.to_thread(newer_records)
            except Exception as error:  # each damage fails in its own way
                warnings.warn(f"The server keeps its index, since the newer version fails: {error}", stacklevel=1)
            else:
                if records is not None:
                    self._records, self._search = self._take_over(records)

    async def close(self, app):
        """Ends the threads once their current work is done."""
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)
        self.recall.close()
        self._files.close()

    async def health(self, request):
        """Unhealthy if a batch exceeds the request timeout."""
        began = self._began
        stuck = began is not None and time.monotonic() - began > self._limits.seconds
        return web.json_response({"status": "stuck" if stuck else "ok"}, status=503 if stuck else 200)

    async def metrics(self, request):
        return web.Response(body=self._monitor.text(), headers={"Content-Type": Monitor.CONTENT_TYPE})

    async def served_models(self, request):
        return web.json_response(rest.served_models(self._name, self._version, self._created))

    async def status(self, request):
        return web.json_response(rest.status(self._version))

    async def metadata(self, request):
        names = self._name, self._version, self._fingerprint
        return web.json_response(rest.metadata(*names, self._embedder.signatures))

    async def predict(self, request):
        """The outputs of a signature for the images of a request."""
        signatures = self._embedder.signatures
        form, name, images = await self._parsed(request, rest.read_predict, signatures, self._limits)
        signature = signatures[name]
        results = await all_of(map(self._outputs(signature.pixels), images))
        rows = [signature.marked(row) for row in results] if signature.marks else _all_good(results)
        return await self._json(rest.answer, form, rows)

    async def embeddings(self, request):
        """Embeddings of images and texts, in the form that clients of language models ask for."""
        facts = self._name, (self._embedder.dim, *self.dimensions), self._limits
        queries, size, as_base64 = await self._parsed(request, rest.read_embeddings, *facts)
        return await self._json(rest.embeddings, self._name, await self._vectors(queries), size, as_base64)

    async def index(self, request):
        index = self._records or self.model_index
        facts = {"max_neighbors": self._max_neighbors, "threshold": self.threshold, "texts": self._texts is not None}
        facts["explains"] = self.similarity_map is not None and self._records is not None and self._records.has_files
        facts["learns"] = self._records is not None and index.description["metric"] != "euclidean"
        return await self._json(rest.as_json, index.description | facts)

    async def search(self, request):
        """Neighbors of the images, items and texts of a request."""
        queries, k, where, judged = await self._parsed(request, rest.read_search, self._limits)
        records, search = self._records, self._search  # of one version of the index
        queries = await self._in_pool("json", lambda: [query.located(records) for query in queries])
        vectors, wrong, is_plain = await self._vectors(queries), (), not judged[0]
        if any(judged):
            vectors[0], wrong = await self._in_pool("json", records.refined, vectors[0], *judged)
        excluded = [wrong if query.row < 0 else (query.row, *wrong) for query in queries]
        pairs = zip(vectors, excluded, strict=True)
        searches = [VectorSearch(vector=x, k=k, where=where, excluded_rows=rows) for x, rows in pairs]
        neighbors = await search(searches)
        checked = self.recall.chosen(len(queries))
        answered = [(items, query.is_image and is_plain) for items, query in zip(neighbors, queries, strict=True)]
        await self._count_searches([items for n, (items, is_image) in enumerate(answered) if is_image and n != checked])
        are_calibrated = [is_plain and not isinstance(query, TextQuery) for query in queries]
        body = await self._json(self._answer, neighbors, are_calibrated)
        if checked >= 0:
            self._check(partial(records.recall, searches[checked]), *answered[checked])
        return body

    def _check(self, recall, items, is_image):
        """Make a search again, exactly, and count it; the answer does not wait for it."""

        def count(share):
            if share != "":
                self._monitor.recall.observe(share)
            if is_image and items:
                self._monitor.count_searches([items[0]["score"]], self.threshold, share)

        self.recall(lambda: recall(items) if items else "", count)

    def _answer(self, neighbors, are_calibrated):
        """The JSON of neighbors; scores of texts and of judged searches are of another kind, without a probability."""
        for items, is_calibrated in zip(neighbors, are_calibrated, strict=True):
            if self.calibration is not None and is_calibrated:
                probabilities = self.calibration.of_neighbors([item["score"] for item in items]).tolist()
                for item, probability in zip(items, probabilities, strict=True):
                    item["probability"] = probability
        return rest.as_json({"neighbors": neighbors})

    async def _vectors(self, queries):
        """The vector of each query; a RefusedError that names all images without one."""
        outputs = self._outputs(PIXELS)

        async def embedding(file):
            result = await outputs(file)
            return result if isinstance(result, str) else result[EMBEDDING]

        return _all_good(await all_of(query.vector(embedding, self._embedded_text) for query in queries))

    async def _embedded_text(self, text):
        require_request(self._texts, "a text", "images or items: the server has no text model")
        try:
            await self._in_pool("json", self._require_texts, [text])
        except ValueError as error:  # alone, so that no other text of the batch fails with it
            raise RefusedError(400, str(error)) from error
        return (await self._texts([text]))[0]

    async def explain(self, request):
        """Why the images of two queries are alike: the shares of their places in their cosine."""
        if self.similarity_map is None:
            raise RefusedError(400, "The server has no Keras model. Serve a run, an entry of the zoo or a .keras file.")
        pair = await self._parsed(request, rest.read_pair, self._limits)
        files = await self._in_pool("pictures", lambda records: [query.file(records) for query in pair], self._records)
        read = await all_of(map(self._files.of_request(), files))
        images = _all_good([problem or pixels for pixels, problem in read])
        try:
            maps = await self._in_pool("model", self.similarity_map, *images)
        except ValueError as error:
            raise RefusedError(400, f"The model cannot explain these images. {error}") from error
        windows = await self._in_pool("pictures", lambda: list(map(self._embedder.window, files)))
        return await self._json(rest.explanation, images, maps, windows)

    async def search_in_model(self, request):
        """Neighbors of the images of a request in the index inside the model."""
        queries, k, where, judged = await self._parsed(request, rest.read_search, self._limits, self._max_neighbors)
        self.model_index.require_files(queries, where, judged)
        outputs = _all_good(await all_of(map(self._outputs(SEARCH), queries)))
        neighbors = await self._in_pool("json", lambda: [self.model_index.neighbors(row, k) for row in outputs])
        await self._count_searches(neighbors)
        return await self._json(self._answer, neighbors, [True] * len(neighbors))

    async def _count_searches(self, neighbors):
        """Count the score of the nearest neighbor of each image that has one: a filter may pass no item."""
        scores = [nearest[0]["score"] for nearest in neighbors if nearest]
        await self._in_pool("json", self._monitor.count_searches, scores, self.threshold)

    @property
    def _max_neighbors(self):
        largest = self._limits.max_neighbors
        return largest if self._records is not None else min(largest, self.model_index.max_neighbors)

    async def items(self, request):
        """Random items of the index."""
        n, seed = rest.read_items(request.query, self._limits)
        return await self._json(lambda: rest.as_json({"items": self._records.random_items(n, seed)}))

    async def thumbnail(self, request):
        """The thumbnail of an id."""
        records = self._records
        row = await self._in_pool("json", records.row, "id", request.match_info["id"])
        thumbnail = await self._thumbnail(records, row)
        if thumbnail is None:
            raise RefusedError(404, "Received an id without a thumbnail, expected one with a thumbnail.")
        return _image(request, "image/jpeg", thumbnail)

    async def picture(self, request):
        """A small picture of an id of the index: its file with its box, else its thumbnail, or that of its file."""
        records = self._records
        row = await self._in_pool("json", records.row, "id", request.match_info["id"])
        box, thumbnail = records.box(row), await self._thumbnail(records, row)
        if thumbnail is not None and (box is None or not await self._in_pool("pictures", records.has_file, row)):
            return _image(request, "image/jpeg", thumbnail)
        path = await self._in_pool("pictures", records.path, row)
        if path is None:
            raise RefusedError(404, "Received an id of an index without paths, expected an index of files.")
        key = str(path), records.version(row), *([box] if box else [])
        try:
            kind, content = await self._in_pool("pictures", self._picture, *key)
        except tf.errors.OpError as error:
            raise RefusedError(404, "Received an id whose file is gone or damaged, expected an image file.") from error
        return _image(request, kind, content)

    async def _thumbnail(self, records, row):
        try:
            return await self._in_pool("pictures", records.thumbnail, row)
        except ValueError as error:
            raise RefusedError(404, "Received an item whose thumbnail is damaged, expected another item.") from error

    def _file(self, name, kind):
        text = _page_file(name).replace("{{model}}", self._name)

        async def page(request):
            return web.Response(text=text, content_type=kind)

        return page

    async def _parsed(self, request, read, *options):
        """`read(body, *options)` in a thread, because large bodies take a while."""
        require_request(not request.query, f"parameters {listed(request.query)}", "them in the JSON of the body")
        return await self._in_pool("json", read, request.pop(BODY), *options)

    async def _json(self, write, *content):
        return web.Response(body=await self._in_pool("json", write, *content), content_type="application/json")

    async def _in_pool(self, use, function, *arguments):
        return await in_thread(self._pools[use], function, *arguments)

    def _outputs(self, signature):
        """Function of each file of a request: its outputs of a signature of pixels, or the reason why it has none.

        Files are read while the model computes the batch before, and are in a batch once they are read.
        """
        read, outputs = self._files.of_request(), self._answers[signature]

        async def of_file(file):
            pixels, problem = await read(file)
            result = problem or (await outputs([pixels]))[0]
            self._monitor.images.labels("refused" if isinstance(result, str) else "embedded").inc()
            return result

        return of_file

    def _answer_batch(self, signature, images):
        self._began = time.monotonic()
        try:
            return self._embedder(images, signature)
        finally:
            self._monitor.batch_seconds.observe(time.monotonic() - self._began)
            self._monitor.batch_images.observe(len(images))
            self._began = None


def _image(request, kind, content):
    """A picture that a client keeps, and asks for again: an id may have another one in a newer index."""
    etag = hashlib.sha256(content).hexdigest()[:16]
    is_known = any(tag.value == etag for tag in request.if_none_match or ())
    options = {"status": 304} if is_known else {"body": content, "content_type": kind}
    answer = web.Response(headers={"Cache-Control": "no-cache"}, **options)
    answer.etag = etag
    return answer


def _page_file(name):
    if name.endswith(".css"):
        return style_sheet("tfdml.serving", "page", name)
    return files("tfdml.serving").joinpath("page", name).read_text(encoding="utf-8")


def _all_good(results):
    """The results of all images; one that has none refuses the request."""
    problems = [
        f"Image {number}: Received {result}" for number, result in enumerate(results) if isinstance(result, str)
    ]
    if problems:
        raise RefusedError(400, " ".join(problems))
    return results
