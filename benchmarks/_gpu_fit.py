"""A whole training step on an accelerator: `fit` on JAX against PyTorch with pytorch-metric-learning, on the same card.

Both train the small plain network of 32 x 32 images with Adam and the multi-similarity loss, on batches that NumPy
draws for each step (4 images per class) and that travel to the card as uint8. PyTorch runs as it is and under
`torch.compile`. `gpu.py` measures it. It needs JAX and PyTorch, and no TensorFlow.
"""

import contextlib
import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer needs memory of the same card

import jax
import keras
import numpy as np

import tfdml

PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16"}
PER_CLASS, CLASSES = 4, 2048
RATE, DIM, WIDTHS = 1e-3, 128, (32, 64, 128)


def batches(size, seed=0):
    """Endless batches of random images `(size, 32, 32, 1)` uint8 and labels `(size,)` int32, 4 per class."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (CLASSES * PER_CLASS, 32, 32, 1), dtype="uint8")
    while True:
        classes = rng.choice(CLASSES, size // PER_CLASS, replace=False)
        rows = (classes[:, None] * PER_CLASS + np.arange(PER_CLASS)).reshape(-1)
        yield images[rows], (rows // PER_CLASS).astype("int32")


def our_model(precision):
    """The plain network, compiled with its loss."""
    keras.config.set_dtype_policy(PRECISIONS[precision])
    try:
        inputs = keras.Input((32, 32, 1), dtype="uint8")
        model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(inputs, dim=DIM, widths=WIDTHS))
    finally:
        keras.config.set_dtype_policy("float32")
    model.compile(keras.optimizers.Adam(RATE), loss=tfdml.losses.MultiSimilarityLoss(), jit_compile=True)
    return model


def ours(size, precision):
    """A function of a number of steps that trains with `fit`."""
    model, data = our_model(precision), batches(size)

    def train(steps):
        model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)
        jax.block_until_ready([variable.value for variable in model.trainable_variables])

    return train


def torch_network():
    """The layers of `tfdml.models.plain_cnn` in PyTorch."""
    import torch
    from torch import nn

    class Standardized(nn.Module):
        def forward(self, images):
            x = images.permute(0, 3, 1, 2).float()
            return nn.functional.layer_norm(x, x.shape[1:], eps=1e-3)

    class Unit(nn.Module):
        def forward(self, x):
            return nn.functional.normalize(x.float(), dim=1)

    def convolution(channels, width):
        return [
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width, momentum=0.1, eps=1e-3),
            nn.ReLU(),
        ]

    parts, channels = [Standardized()], 1
    for stage, width in enumerate(WIDTHS):
        parts += convolution(channels, width)
        parts += convolution(width, width) if stage else []
        parts.append(nn.MaxPool2d(2))
        channels = width
    parts += [nn.Flatten(), nn.Linear(channels * (32 // 2 ** len(WIDTHS)) ** 2, DIM), Unit()]
    torch.manual_seed(0)
    return nn.Sequential(*parts)


def of_torch(size, precision, *, compiled):
    """A function of a number of steps that trains in PyTorch, on its GPU if it has one."""
    import torch
    from pytorch_metric_learning.losses import MultiSimilarityLoss

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")  # the default of JAX: float32 products in TensorFloat-32
    torch.backends.cudnn.allow_tf32 = True
    network = torch_network().to(device)
    require_as_many_weights(network, our_model(precision))
    loss, optimizer = MultiSimilarityLoss(alpha=2, beta=50, base=0.5), torch.optim.Adam(network.parameters(), RATE)
    forward = torch.compile(network) if compiled else network
    half = precision == "bfloat16"
    data = batches(size)

    def step():
        images, labels = (torch.from_numpy(part).to(device, non_blocking=True) for part in next(data))
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16) if half else contextlib.nullcontext():
            embeddings = forward(images)
        loss(embeddings, labels.long()).backward()
        optimizer.step()

    def train(steps):
        for _ in range(steps):
            step()
        if device == "cuda":
            torch.cuda.synchronize()

    return train


def require_as_many_weights(theirs, ours):
    """Stop if the two networks differ: the timing would mean nothing."""
    numbers = [
        sum(p.numel() for p in theirs.parameters()),
        sum(int(np.prod(v.shape)) for v in ours.trainable_variables),
    ]
    if numbers[0] != numbers[1]:
        raise SystemExit(f"PyTorch trains {numbers[0]} weights and Keras {numbers[1]}; they should be equal.")


def way(name, size, precision):
    """The function of a number of steps that trains in one way."""
    if name == "ours":
        return ours(size, precision)
    return of_torch(size, precision, compiled=name == "torch_compiled")
