"""A plain server of an ONNX file, to compare with: a request is decoded, embedded and searched in a thread, alone.

    python benchmarks/_plain_server.py model.onnx vectors.npy

It has the addresses and the requests of `tfdml serve`, without its batches, limits, checks and filters. Pillow decodes
and resizes, ONNX Runtime embeds in one run per request on all cores, and NumPy searches. It prints its address.
"""

import asyncio
import base64
import io
import json
import sys

import numpy as np
import onnxruntime
from aiohttp import web
from PIL import Image


def functions_of(path, vectors):
    """By action, a function from the bytes of a request to the bytes of its answer."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (images,) = session.get_inputs()
    side = images.shape[1]

    def embedded(instance):
        photo = Image.open(io.BytesIO(base64.b64decode(instance["b64"]))).convert("RGB")
        pixels = np.asarray(photo.resize((side, side), Image.Resampling.BILINEAR))
        return session.run(["embedding"], {images.name: pixels[None]})[0][0]

    def predict(body):
        rows = [embedded(instance).tolist() for instance in json.loads(body)["instances"]]
        return json.dumps({"predictions": rows}).encode()

    def neighbors(instance, k):
        row = int(instance["id"].split()[1]) if "id" in instance else None
        query = embedded(instance) if row is None else vectors[row]
        scores = vectors @ (query / np.linalg.norm(query))
        if row is not None:
            scores[row] = -np.inf
        nearest = np.argpartition(-scores, k)[:k]
        nearest = nearest[np.argsort(-scores[nearest])]
        return [{"id": f"item {item}", "score": float(scores[item])} for item in nearest]

    def search(body):
        request = json.loads(body)
        return json.dumps({"neighbors": [neighbors(each, request["k"]) for each in request["instances"]]}).encode()

    return {"predict": predict, "search": search}


async def serve(path, vectors):
    """Answers requests until the process is ended."""
    functions = functions_of(path, vectors)

    async def handler(request):
        body = await asyncio.to_thread(functions[request.match_info["action"]], await request.read())
        return web.Response(body=body, content_type="application/json")

    application = web.Application(client_max_size=2**26)
    application.add_routes([web.post("/v1/models/model:{action}", handler)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"model": f"http://127.0.0.1:{runner.addresses[0][1]}/v1/models/model"}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], np.load(sys.argv[2])))
