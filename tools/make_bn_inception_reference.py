"""Makes tests/recipes/bn_inception_reference.npz: what every layer of BN-Inception gives in PyTorch, in float64.

    pip install -r requirements/peers.lock    # torch
    python -m tools.make_bn_inception_reference

The network is written for PyTorch from the layout of the published weights, independently of tfdml.models: the table
below has a line for each convolution. Weights and image are drawn from seeds, so the file has only the names and shapes
of the state dict and a summary of each layer.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.recipes import bn_inception_reference as reference

# Name, channels in and out, size, strides.
CONVOLUTIONS = """
conv1_7x7_s2 3 64 7 2
conv2_3x3_reduce 64 64 1 1
conv2_3x3 64 192 3 1
inception_3a_1x1 192 64 1 1
inception_3a_3x3_reduce 192 64 1 1
inception_3a_3x3 64 64 3 1
inception_3a_double_3x3_reduce 192 64 1 1
inception_3a_double_3x3_1 64 96 3 1
inception_3a_double_3x3_2 96 96 3 1
inception_3a_pool_proj 192 32 1 1
inception_3b_1x1 256 64 1 1
inception_3b_3x3_reduce 256 64 1 1
inception_3b_3x3 64 96 3 1
inception_3b_double_3x3_reduce 256 64 1 1
inception_3b_double_3x3_1 64 96 3 1
inception_3b_double_3x3_2 96 96 3 1
inception_3b_pool_proj 256 64 1 1
inception_3c_3x3_reduce 320 128 1 1
inception_3c_3x3 128 160 3 2
inception_3c_double_3x3_reduce 320 64 1 1
inception_3c_double_3x3_1 64 96 3 1
inception_3c_double_3x3_2 96 96 3 2
inception_4a_1x1 576 224 1 1
inception_4a_3x3_reduce 576 64 1 1
inception_4a_3x3 64 96 3 1
inception_4a_double_3x3_reduce 576 96 1 1
inception_4a_double_3x3_1 96 128 3 1
inception_4a_double_3x3_2 128 128 3 1
inception_4a_pool_proj 576 128 1 1
inception_4b_1x1 576 192 1 1
inception_4b_3x3_reduce 576 96 1 1
inception_4b_3x3 96 128 3 1
inception_4b_double_3x3_reduce 576 96 1 1
inception_4b_double_3x3_1 96 128 3 1
inception_4b_double_3x3_2 128 128 3 1
inception_4b_pool_proj 576 128 1 1
inception_4c_1x1 576 160 1 1
inception_4c_3x3_reduce 576 128 1 1
inception_4c_3x3 128 160 3 1
inception_4c_double_3x3_reduce 576 128 1 1
inception_4c_double_3x3_1 128 160 3 1
inception_4c_double_3x3_2 160 160 3 1
inception_4c_pool_proj 576 128 1 1
inception_4d_1x1 608 96 1 1
inception_4d_3x3_reduce 608 128 1 1
inception_4d_3x3 128 192 3 1
inception_4d_double_3x3_reduce 608 160 1 1
inception_4d_double_3x3_1 160 192 3 1
inception_4d_double_3x3_2 192 192 3 1
inception_4d_pool_proj 608 128 1 1
inception_4e_3x3_reduce 608 128 1 1
inception_4e_3x3 128 192 3 2
inception_4e_double_3x3_reduce 608 192 1 1
inception_4e_double_3x3_1 192 256 3 1
inception_4e_double_3x3_2 256 256 3 2
inception_5a_1x1 1056 352 1 1
inception_5a_3x3_reduce 1056 192 1 1
inception_5a_3x3 192 320 3 1
inception_5a_double_3x3_reduce 1056 160 1 1
inception_5a_double_3x3_1 160 224 3 1
inception_5a_double_3x3_2 224 224 3 1
inception_5a_pool_proj 1056 128 1 1
inception_5b_1x1 1024 352 1 1
inception_5b_3x3_reduce 1024 192 1 1
inception_5b_3x3 192 320 3 1
inception_5b_double_3x3_reduce 1024 192 1 1
inception_5b_double_3x3_1 192 224 3 1
inception_5b_double_3x3_2 224 224 3 1
inception_5b_pool_proj 1024 128 1 1
"""
BLOCKS = ("3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b")
HALVING = ("3c", "4e")


class BNInception(nn.Module):
    """Features of the published network; `outputs` keeps what each layer gave."""

    def __init__(self):
        super().__init__()
        for name, inside, outside, size, strides in (line.split() for line in CONVOLUTIONS.strip().splitlines()):
            size = int(size)
            padding = {7: 3, 3: 1, 1: 0}[size]
            convolution = nn.Conv2d(int(inside), int(outside), size, stride=int(strides), padding=padding)
            self.add_module(name, convolution)
            self.add_module(f"{name}_bn", nn.BatchNorm2d(int(outside), eps=1e-5))
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
