"""One way to compute CosFace over proxies, or a contrastive loss over a memory, in its own process.

`_loss_worker.py` describes requests and answers.

    python benchmarks/_proxy_worker.py eager|graph|xla|three_products|three_products_xla|pytorch_metric_learning
    python benchmarks/_proxy_worker.py memory_graph|memory_xla|memory_pytorch_metric_learning
    python benchmarks/_proxy_worker.py step_graph|step_xla

Requests have the number of references as `classes`, and for training steps the sampled classes (0 for all) and the
optimizer.
"""

import sys

import numpy as np
from _loss_worker import serve, three_products
from _peers import torch_device, torch_value_and_gradient


def batch(request):
    """Labels, embeddings and proxies, the same in every process."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, request["classes"], request["batch"])
    x, proxies = (rng.standard_normal((rows, request["dim"])) for rows in (request["batch"], request["classes"]))
    return labels, x.astype("float32"), (proxies / request["dim"] ** 0.5).astype("float32")


def ours(way):
    """Value and gradients of `CosFaceLoss`."""
    import tensorflow as tf

    import tfdml

    def prepare(request):
        labels, x, proxies = batch(request)
        labels, x = tf.constant(labels), tf.constant(x)
        loss = tfdml.losses.CosFaceLoss(classes=request["classes"])
        loss.proxies.build(labels.shape, x.shape)
        loss.proxies.vectors.assign(proxies)

        def run(labels, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = loss(labels, x)
            return value, tape.gradient(value, [x, loss.proxies.vectors.value])

        compiled = run if way == "eager" else tf.function(run, jit_compile=way == "xla")
        return lambda: float(compiled(labels, x)[0])

    return prepare


def memory(jit_compile):
    """Value and gradient of the contrastive loss of a batch and a full memory, into which the batch is written."""
    import tensorflow as tf

    import tfdml

    def prepare(request):
        x, vectors, ids = remembered(request)
        x = tf.constant(x)
        references = tfdml.layers.Memory(request["classes"], warm_up=0)
        references.build((None,), x.shape)
        references.update(ids, vectors)
        loss, labels = tfdml.losses.ContrastiveLoss(pairing=references), tf.constant(ids[: request["batch"]])

        @tf.function(jit_compile=jit_compile)
        def run(labels, x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = loss(labels, x)
            references.update(labels, tf.reverse(x, [1]))  # other rows, as in the next batch
            return value, tape.gradient(value, x)

        return lambda: float(run(labels, x)[0])

    return prepare


def remembered(request):
    """Unit vectors of a batch and of a memory, and its class ids, eight of each. It has an old copy of each row."""
    _, x, vectors = batch(request)
    ids = np.random.default_rng(1).permutation(request["classes"]) // 8
    vectors[-len(x) :] = x + 1e-3 * vectors[-len(x) :]
    return *(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, vectors)), ids


def memory_of_the_peer(request):
    """Value and gradient of the peer's contrastive loss of a batch and its full memory."""
    import torch
    from pytorch_metric_learning.distances import LpDistance
    from pytorch_metric_learning.losses import ContrastiveLoss, CrossBatchMemory

    x, vectors, ids = remembered(request)
    loss = CrossBatchMemory(ContrastiveLoss(distance=LpDistance()), request["dim"], memory_size=request["classes"])
    loss = loss.to(torch_device())
    loss.add_to_memory(*(torch.tensor(part, device=torch_device()) for part in (vectors, ids)), len(ids))
    return torch_value_and_gradient(lambda labels, x: loss(x, labels), ids[: request["batch"]], x)


def products(jit_compile):
    """The similarities, and two products of their size: what any loss over all proxies must do."""
    return lambda request: three_products(*batch(request)[1:], jit_compile=jit_compile)


def pytorch_metric_learning(request):
    """Value and gradients of the peer's `CosFaceLoss`."""
    import torch
    from pytorch_metric_learning.losses import CosFaceLoss

    labels, x, proxies = batch(request)
    loss = CosFaceLoss(request["classes"], request["dim"])
    loss.W.data = torch.tensor(proxies, device=torch_device()).t().contiguous()

    def value(labels, x):
        loss.W.grad = None
        return loss(x, labels)

    return torch_value_and_gradient(value, labels, x)


def step(jit_compile):
    """A training step of one dense layer with `CosFaceLoss`."""
    import keras

    import tfdml

    def prepare(request):
        keras.backend.clear_session()
        rng = np.random.default_rng(0)
        inputs = keras.Input((request["dim"],))
        model = tfdml.models.EmbeddingModel(inputs, keras.layers.Dense(request["dim"])(inputs))
        proxies = tfdml.layers.Proxies(request["classes"], num_sampled_classes=request["sampled"] or None, seed=0)
        loss = tfdml.losses.CosFaceLoss(pairing=proxies)
        model.compile(request["optimizer"], loss=loss, jit_compile=jit_compile)

        def run():
            x = rng.standard_normal((request["batch"], request["dim"])).astype("float32")
            return float(model.train_on_batch(x, rng.integers(0, request["classes"], request["batch"])))

        return run

    return prepare


WAYS = {
    "eager": lambda: ours("eager"),
    "graph": lambda: ours("graph"),
    "xla": lambda: ours("xla"),
    "three_products": lambda: products(False),
    "three_products_xla": lambda: products(True),
    "pytorch_metric_learning": lambda: pytorch_metric_learning,
    "memory_graph": lambda: memory(False),
    "memory_xla": lambda: memory(True),
    "memory_pytorch_metric_learning": lambda: memory_of_the_peer,
    "step_graph": lambda: step(False),
    "step_xla": lambda: step(True),
}


if __name__ == "__main__":
    small = {"batch": 64, "dim": 16, "classes": 64, "sampled": 0, "optimizer": "sgd"}
    serve(lambda: WAYS[sys.argv[1]](), small)
