"""Makes tests/recipes/bn_inception_reference.npz: what every layer of BN-Inception gives in PyTorch, in float64.

    pip install -r requirements/peers.lock    # torch
    python -m tools.make_bn_inception_reference

The network is written for PyTorch from the layout of the published weights, independently of tfdml.models: the table
below has a line for each block. Weights and image are drawn from seeds, so the file has only the names and shapes
of the state dict and a summary of each layer.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.recipes import bn_inception_reference as reference

# Block, its channels, and those of 1x1, 3x3_reduce, 3x3, double_3x3_reduce, both double_3x3, and pool_proj; 0 for none.
CHANNELS = """
3a 192 64 64 64 64 96 32
3b 256 64 64 96 64 96 64
3c 320 0 128 160 64 96 0
4a 576 224 64 96 96 128 128
4b 576 192 96 128 96 128 128
4c 576 160 128 160 128 160 128
4d 608 96 128 192 160 192 128
4e 608 0 128 192 192 256 0
5a 1056 352 192 320 160 224 128
5b 1024 352 192 320 192 224 128
"""
BLOCKS = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
HALVING = ("3c", "4e")


def convolutions():
    """Name, channels in and out, size and strides of each convolution."""
    yield from [("conv1_7x7_s2", 3, 64, 7, 2), ("conv2_3x3_reduce", 64, 64, 1, 1), ("conv2_3x3", 64, 192, 3, 1)]
    for block, *channels in (line.split() for line in CHANNELS.strip().splitlines()):
        inside, plain, reduced, single, twice_reduced, double, pooled = map(int, channels)
        last = 2 if block in HALVING else 1
        for name, *shape in (
            ("1x1", inside, plain, 1, 1),
            ("3x3_reduce", inside, reduced, 1, 1),
            ("3x3", reduced, single, 3, last),
            ("double_3x3_reduce", inside, twice_reduced, 1, 1),
            ("double_3x3_1", twice_reduced, double, 3, 1),
            ("double_3x3_2", double, double, 3, last),
            ("pool_proj", inside, pooled, 1, 1),
        ):
            if shape[1]:
                yield f"inception_{block}_{name}", *shape


class BNInception(nn.Module):
    """Features of the published network; `outputs` keeps what each layer gave."""

    def __init__(self):
        super().__init__()
        for name, inside, outside, size, strides in convolutions():
            self.add_module(name, nn.Conv2d(inside, outside, size, stride=strides, padding=size // 2))
            self.add_module(f"{name}_bn", nn.BatchNorm2d(outside, eps=1e-5))
        self.outputs = {}

    def kept(self, name, value):
        """The value, remembered under a name."""
        self.outputs[name] = value
        return value

    def convolution(self, name, x):
        """Convolution, batch normalization, and the positive part."""
        x = self.kept(name, getattr(self, name)(x))
        x = self.kept(f"{name}_bn", getattr(self, f"{name}_bn")(x))
        return self.kept(f"{name}_relu", functional.relu(x))

    def chain(self, x, block, *names):
        """Several convolutions of a block, one after the other."""
        for name in names:
            x = self.convolution(f"inception_{block}_{name}", x)
        return x

    def pooling(self, x, block):
        """The pooling branch before its projection."""
        if block in HALVING:
            x = functional.max_pool2d(x, 3, stride=2, ceil_mode=True)
        elif block == "5b":
            x = functional.max_pool2d(x, 3, stride=1, padding=1, ceil_mode=True)
        else:
            x = functional.avg_pool2d(x, 3, stride=1, padding=1, ceil_mode=True, count_include_pad=True)
        return self.kept(f"inception_{block}_pool", x)

    def inception(self, x, block):
        """One block."""
        branches = [
            self.chain(x, block, "3x3_reduce", "3x3"),
            self.chain(x, block, "double_3x3_reduce", "double_3x3_1", "double_3x3_2"),
            self.pooling(x, block),
        ]
        if block not in HALVING:
            branches = [self.chain(x, block, "1x1"), *branches[:2], self.chain(branches[2], block, "pool_proj")]
        return self.kept(f"inception_{block}_output", torch.cat(branches, dim=1))

    def forward(self, x):
        """Of `(batch, 3, height, width)`: blue, green, red, minus their means."""
        x = functional.max_pool2d(self.convolution("conv1_7x7_s2", x), 3, stride=2, ceil_mode=True)
        x = self.convolution("conv2_3x3_reduce", self.kept("pool1_3x3_s2", x))
        x = functional.max_pool2d(self.convolution("conv2_3x3", x), 3, stride=2, ceil_mode=True)
        x = self.kept("pool2_3x3_s2", x)
        for block in BLOCKS:
            x = self.inception(x, block)
        return x


def prepared(pixels):
    """Pixels, red first, as the published network takes them."""
    blue_first = np.ascontiguousarray(pixels[..., ::-1], "float64") - np.array([104.0, 117.0, 128.0])
    return torch.from_numpy(blue_first.transpose(0, 3, 1, 2).copy())


def main():
    """Write the file."""
    network = BNInception().eval()
    shapes = {name: tuple(v.shape) for name, v in network.state_dict().items() if not name.endswith("tracked")}
    state = reference.drawn(shapes, shapes.values())
    network.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()}, strict=False)
    with torch.no_grad():
        network.double()(prepared(reference.image()))
    outputs = {name: value.numpy().transpose(0, 2, 3, 1) for name, value in network.outputs.items()}
    np.savez_compressed(
        reference.FILE,
        names=list(shapes),
        shapes=[(*shape, *[0] * (4 - len(shape))) for shape in shapes.values()],
        layers=list(outputs),
        layer_shapes=[value.shape for value in outputs.values()],
        summaries=[reference.summary(value) for value in outputs.values()],
    )
    print(f"{len(outputs)} layers, {sum(v.size for v in state.values())} values, {reference.FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
