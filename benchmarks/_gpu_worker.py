"""One part of `gpu.py` in its own process.

    python benchmarks/_gpu_worker.py losses|torch|fit|retrieval|network [--quick]

Reads a list of cases in JSON from the first line of its input, and answers with a line of JSON for each in their order:
its numbers, or why it failed. Losses are compiled ahead in threads; a lock in GPU_FOLDER lets one process at a time
measure.
"""

import contextlib
import fcntl
import functools
import json
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

PART, QUICK = sys.argv[1], "--quick" in sys.argv
os.environ["KERAS_BACKEND"] = "torch" if PART == "torch" else "jax"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share the card
# XLA tries the programs of cuBLAS for a product, and all processes remember the fastest. To try those of Triton too, as
# it does by default, would take most of the time, and the card from who measures.
TUNED = f"--xla_gpu_per_fusion_autotune_cache_dir={os.environ['GPU_FOLDER']}/tuned"
os.environ.setdefault("XLA_FLAGS", f"--xla_gpu_enable_triton_gemm=false {TUNED}")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from _peers import (  # noqa: E402
    OF_ADDONS,
    batch,
    others,
    ours,
    pytorch_metric_learning,
    torch_value_and_gradient,
)

import tfdml  # noqa: E402

TOWERS = ("CLIPLoss", "SigmoidLoss")
CLASSES = 4096  # of losses over proxies
MOST_MIB = 12_000  # a program that the compiler gives more is not run: a process keeps what it had
THREADS = 4
ROWS = 8192  # of the products at the same time
QUICK_SECONDS, SECONDS, MOST_CALLS = 0.01, 0.25, 30


def timed(call):
    """Median milliseconds of a call that returns when its work is done, and its result; the first does not count."""
    call()
    times = []
    while len(times) < 2 or (sum(times) < (QUICK_SECONDS if QUICK else SECONDS) and len(times) < MOST_CALLS):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times), result


def reason(error):
    """Why a case failed, in a few words."""
    text = f"{type(error).__name__}: {error}"
    if any(sign in text for sign in ("MemoryError", "out of memory", "RESOURCE_EXHAUSTED", "OOM")):
        return "out of memory"
    return text.splitlines()[0][:120]


def makers(dim):
    """name -> function that makes a loss, the most important first."""
    known = {name: functools.partial(lambda loss: loss, loss) for name, loss in ours().items() if name not in OF_ADDONS}
    return known | others(dim, CLASSES)


def data(name, size, dim):
    """Labels and embeddings of a loss."""
    labels, x = batch(size, dim, examples_per_class=2 if name == "n-pairs" else 4)
    if name not in TOWERS:
        return labels % CLASSES, x
    return np.arange(size, dtype="int32"), np.stack([x, batch(size, dim, seed=1)[1]], axis=1)


class Losses:
    """Value and gradient of losses on JAX. A case is (loss, rows, dim, precision)."""

    def __init__(self):
        self.results, self.tracing = {}, threading.Lock()
        self.data = functools.lru_cache(maxsize=3)(self._on_device)

    def prepare(self, case):
        """Compile a case; returns the function that measures it."""
        return functools.partial(self._measured, case, *self._compiled(*case))

    def _on_device(self, kind, size, dim):
        import jax

        return [jax.device_put(array) for array in data(kind, size, dim)]

    def _arrays(self, name, size, dim):
        return self.data(name if name in (*TOWERS, "n-pairs") else "", size, dim)

    def _compiled(self, name, size, dim, precision):
        """The program, its arguments after labels and embeddings, and seconds to compile it."""
        import jax

        with self.tracing:  # the precision is one setting of the process
            begin = time.perf_counter()
            tfdml.pairs.set_product_precision(precision)
            labels, x = self._arrays(name, size, dim)
            if name.startswith("products"):
                arguments = [jax.device_put(batch(int(name.split()[1]), dim, seed=2)[1])] if " " in name else [x]
                lowered = jax.jit(products).lower(labels, x, arguments)
            else:
                function, variables = value_of(makers(dim)[name](), labels, x)
                arguments = [variable.value for variable in variables]
                lowered = jax.jit(jax.value_and_grad(function, (1, 2))).lower(labels, x, arguments)
        return lowered.compile(), arguments, time.perf_counter() - begin

    def _measured(self, case, compiled, arguments, seconds):
        import jax

        memory = compiled.memory_analysis()
        mib = (memory.temp_size_in_bytes + memory.output_size_in_bytes) / 2**20
        row = {"compiler_mib": mib, "compile_s": seconds, "device": jax.devices()[0].device_kind}
        if mib > MOST_MIB:
            return row | {"ms": f"needs {mib / 1024:.0f} GiB"}
        labels, x = self._arrays(*case[:3])
        before = peak_mib()
        row["ms"], result = timed(lambda: jax.block_until_ready(compiled(labels, x, arguments)))
        after = peak_mib()
        row["device_mib"] = after if after > before else ""  # of the process: known where it rose
        return row | self._errors(case, result)

    def _errors(self, case, found):
        """Errors against the same in full float32, relative to the value and to the largest entry of the gradient."""
        name, size, _, precision = case
        if name.startswith("products"):
            return {}
        value, gradient = float(found[0]), np.asarray(found[1][0]) if size <= 4096 else None
        if not np.isfinite(value):
            raise ValueError(f"the loss is {value}")
        if precision == "float32":
            self.results[name, size] = value, gradient
        if precision == "float32" or (name, size) not in self.results:
            return {"value": value}
        full, full_gradient = self.results[name, size]
        errors = {"value": value, "value_error": abs(value - full) / max(abs(full), 1e-12)}
        if gradient is not None:
            errors["gradient_error"] = float(np.abs(gradient - full_gradient).max() / np.abs(full_gradient).max())
        return errors


def products(labels, x, arguments):
    """The similarities, and two products of their size: the least that a loss over pairs must do."""
    from tfdml.pairs.products import product

    (references,) = arguments

    def of_rows(total, rows):
        s = product(rows, references.T)
        return total + product(s.T, rows), product(s, references)

    import jax

    blocks = x.reshape(-1, min(ROWS, len(x)), x.shape[1])
    return jax.lax.scan(of_rows, 0 * references, blocks)


def value_of(loss, labels, x):
    """A loss as a function of labels, embeddings and the values of its variables, and these variables."""
    for layer in loss._flatten_layers() if hasattr(loss, "_flatten_layers") else loss.layers:
        if not layer.built:
            layer.build(labels.shape, x.shape)
    variables = [variable for layer in loss.layers for variable in layer.trainable_variables]

    def value(labels, x, values):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return loss(labels, x)

    return value, variables


def peak_mib():
    """The most memory of the device that this process had, in MiB; 0 on a CPU, which does not say."""
    import jax

    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**20


def of_torch(case):
    """Value and gradient of a loss on PyTorch. A case is (loss, rows, dim, way)."""
    import torch

    name, size, dim, way = case
    if way == "peer":
        loss = pytorch_metric_learning()[name]
    elif way == "tiles":
        loss = lambda labels, x: TILES[name](x[:, 0], x[:, 1])  # noqa: E731
    else:
        towers = {
            "CLIPLoss": lambda: tfdml.losses.CLIPLoss(temperature=0.07),
            "SigmoidLoss": lambda: tfdml.losses.SigmoidLoss(scale=10.0, bias=-10.0),
        }
        loss = (makers(dim) | towers)[name]()
        if way == "compiled":
            loss = torch.compile(lambda y, x, eager=loss: eager(y, x), dynamic=False)
    run = torch_value_and_gradient(loss, *data(name, size, dim))
    run()
    return functools.partial(measured_in_torch, run)


def measured_in_torch(run):
    """Time and memory of a function."""
    import torch

    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    ms, value = timed(run)
    row = {"ms": ms, "value": value, "device": torch.cuda.get_device_name() if on_gpu else "cpu"}
    return row | ({"mib": (torch.cuda.max_memory_allocated() - before) / 2**20} if on_gpu else {})


def tiled(of_tile, gradients, rows=4096):
    """A loss over two towers in tiles, which the backward pass computes again, with no library's help.

    `of_tile(s)` is the value of each row of a tile and what the backward pass needs of a row; see `TILES`.
    """
    import torch

    class Tiled(torch.autograd.Function):
        @staticmethod
        def forward(context, a, b):
            value, sums = of_tile(a, b, rows)
            context.save_for_backward(a, b, *sums)
            return value

        @staticmethod
        def backward(context, upstream):
            a, b, *sums = context.saved_tensors
            da, db = torch.zeros_like(a), torch.zeros_like(b)
            for i in range(0, len(a), rows):
                for j in range(0, len(b), rows):
                    ds = gradients(a[i : i + rows] @ b[j : j + rows].T, i, j, *sums)
                    da[i : i + rows] += ds @ b[j : j + rows]
                    db[j : j + rows] += ds.T @ a[i : i + rows]
            return upstream * da / len(a), upstream * db / len(a)

    return Tiled.apply


def matching(s, i, j):
    """Where row and column of a tile are a pair: its diagonal, in tiles of the diagonal."""
    import torch

    return torch.eye(*s.shape, device=s.device) if i == j else torch.zeros((), device=s.device)


def softmax_in_tiles(a, b, rows, temperature=0.07):
    """The symmetric softmax loss of CLIP by running sums of exponentials, as in Inf-CL (Cheng et al., 2024)."""
    import torch

    of_rows = torch.full((len(a),), -torch.inf, device=a.device)
    of_columns = of_rows.clone()
    for i in range(0, len(a), rows):
        for j in range(0, len(b), rows):
            s = a[i : i + rows] @ b[j : j + rows].T / temperature
            of_rows[i : i + rows] = torch.logaddexp(of_rows[i : i + rows], s.logsumexp(1))
            of_columns[j : j + rows] = torch.logaddexp(of_columns[j : j + rows], s.logsumexp(0))
    own = (a * b).sum(1) / temperature
    return ((of_rows + of_columns) / 2 - own).mean(), (of_rows, of_columns)


def softmax_gradients(s, i, j, of_rows, of_columns, temperature=0.07):
    """Derivatives of the sum over rows by the similarities of a tile."""
    s = s / temperature
    by_rows = (s - of_rows[i : i + len(s), None]).exp()
    by_columns = (s - of_columns[None, j : j + s.shape[1]]).exp()
    return ((by_rows + by_columns) / 2 - matching(s, i, j)) / temperature


def sigmoid_in_tiles(a, b, rows, scale=10.0, bias=-10.0):
    """The loss of SigLIP (Zhai et al., 2023), a tile after the other, as open_clip's loss over chunks of texts."""
    import torch

    total = torch.zeros((), device=a.device)
    for i in range(0, len(a), rows):
        for j in range(0, len(b), rows):
            s = a[i : i + rows] @ b[j : j + rows].T
            sign = 2 * matching(s, i, j) - 1
            total = total - torch.nn.functional.logsigmoid(sign * (scale * s + bias)).sum()
    return total / len(a), ()


def sigmoid_gradients(s, i, j, scale=10.0, bias=-10.0):
    """Derivatives of the sum over rows by the similarities of a tile."""
    import torch

    sign = 2 * matching(s, i, j) - 1
    return -sign * scale * torch.sigmoid(-sign * (scale * s + bias))


TILES = {
    "CLIPLoss": lambda a, b: tiled(softmax_in_tiles, softmax_gradients)(a, b),
    "SigmoidLoss": lambda a, b: tiled(sigmoid_in_tiles, sigmoid_gradients)(a, b),
}


def fit(case):
    """A training step of `_gpu_fit.py`. A case is (way, rows, precision)."""
    import _gpu_fit

    train, steps = _gpu_fit.way(*case), 2 if QUICK else 60 if case[1] < 1000 else 20
    train(2)

    def measure():
        train(2)
        times = []
        for _ in range(1 if QUICK else 3):
            begin = time.perf_counter()
            train(steps)
            times.append((time.perf_counter() - begin) / steps)
        return {"value": 1e3 * statistics.median(times), "unit": "ms a step"}

    return measure


def retrieval(case):
    """The numbers of `_gpu_retrieval.py` for many rows. A case is (queries, rows, dim)."""
    import _gpu_retrieval
    import jax
    from retrieval import make_data

    queries, rows, dim = case
    _gpu_retrieval.BLOCK = 64 if QUICK else 1024
    x, labels = make_data(rows, dim, classes=-(-rows // 6))
    x, relevant = jax.device_put(x), jax.device_put(_gpu_retrieval.relevant_rows(labels)[:queries])

    def evaluate():
        ranks = _gpu_retrieval.ranks_of_relevant(x, relevant, rows)
        return jax.block_until_ready(_gpu_retrieval.numbers_of(ranks, (1, 10)))

    def measure():
        numbers, begin = evaluate(), time.perf_counter()
        evaluate()
        seconds = time.perf_counter() - begin
        row = {"value": queries / seconds, "unit": "queries a second", "mib": peak_mib()}
        return row | {"note": f"recall@1 {float(numbers['recall@1']):.3f}"}

    return measure


@functools.cache
def network_and_data(rows, size, pixels):
    """A ViT-B/16 from random weights, compiled for micro-batches, with images and labels."""
    images = np.frombuffer(np.random.default_rng(0).bytes(rows * pixels * pixels * 3), "uint8")
    model = vision_transformer(pixels, *((1, 16, 2) if QUICK else (12, 768, 12)))
    model.compile(keras.optimizers.Adam(1e-4), loss=tfdml.losses.NTXentLoss(), micro_batch_size=size)
    return model, images.reshape(rows, pixels, pixels, 3), np.arange(rows, dtype="int32") // 4


def network(case):
    """A step of a large batch in micro-batches. A case is (rows, micro-batch, pixels, step)."""
    model, images, labels = network_and_data(*case[:3])

    def measure():
        begin = time.perf_counter()
        loss = float(model.train_on_batch(images, labels))
        seconds = time.perf_counter() - begin
        return {"value": seconds, "unit": "s, with compiling in step 1", "mib": peak_mib(), "note": f"loss {loss:.3f}"}

    return measure


def vision_transformer(pixels, depth, width, heads, patch=16):
    """A model with the layers of ViT-B/16 (Dosovitskiy et al., 2021), and embeddings of 512 dimensions."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    layers = keras.layers
    inputs = keras.Input((pixels, pixels, 3), dtype="uint8")
    x = layers.Conv2D(width, patch, strides=patch)(layers.Rescaling(1 / 127.5, offset=-1.0)(inputs))
    x = layers.Reshape(((pixels // patch) ** 2, width))(x)
    places = layers.Embedding(x.shape[1], width)(keras.ops.arange(x.shape[1])[None])
    x = layers.Add()([x, keras.ops.broadcast_to(places, (1, *x.shape[1:]))])
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(y))])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    outputs = layers.UnitNormalization(dtype="float32")(layers.Dense(512 if width > 16 else 16)(x))
    keras.config.set_dtype_policy("float32")
    return tfdml.models.EmbeddingModel(inputs, outputs)


# A function of a case that prepares it, and returns the function that measures it.
PARTS = {"losses": Losses().prepare, "torch": of_torch, "fit": fit, "retrieval": retrieval, "network": network}


def measured(prepare, case, prepared):
    """The numbers of a case, or why there are none; `prepared` is what becomes of one that is prepared ahead."""
    try:
        measure = prepared and prepared.result()
        with only_one():
            return (measure or prepare(case))()
    except Exception as error:
        return {"failed": reason(error)}


@contextlib.contextmanager
def only_one():
    """No other process measures at the same time."""
    with open(f"{os.environ['GPU_FOLDER']}/lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main():
    """Answer all cases."""
    answers = os.fdopen(os.dup(1), "w")  # libraries may print to the old one
    os.dup2(2, 1)
    prepare, cases = PARTS[PART], json.loads(sys.stdin.readline())
    with ThreadPoolExecutor(THREADS if PART == "losses" else 1) as threads:
        is_ahead = [PART == "losses" or case[-1] == "compiled" for case in cases]
        ahead = [threads.submit(prepare, case) if each else None for case, each in zip(cases, is_ahead, strict=True)]
        for case in cases:  # `pop`: a program that was measured leaves the card
            print(json.dumps({"case": case} | measured(prepare, case, ahead.pop(0))), file=answers, flush=True)


if __name__ == "__main__":
    main()
