"""The largest rank of LoRA that trains at most 2% of the weights of a network.

python benchmarks/lora_ranks.py            # half a minute; weights are counted, not trained
python benchmarks/lora_ranks.py --quick    # one network
"""

import keras
import keras_hub
from _report import options_of, write_table

import tfdml

SHAPE = (224, 224, 3)


def application(name):
    """A network of keras.applications without its classifier, with random weights."""
    return getattr(keras.applications, name)(include_top=False, weights=None, input_shape=SHAPE)


def vit():
    """The backbone of ViT-B/16, with random weights."""
    return keras_hub.models.ViTBackbone(
        image_shape=SHAPE, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072
    )


def row(name, build):
    """The weights of a network, without a head, and how many of them LoRA trains."""
    network = build()
    weights = network.count_params()
    factors = tfdml.networks.add_lora(network, rank=1)  # of rank r: r times as many
    rank = int(0.02 * weights // factors)
    counts = {"weights": weights, "rank_1_percent": 100 * factors / weights, "largest_rank": rank}
    return {"network": name, **counts, "largest_rank_percent": 100 * rank * factors / weights}


def main():
    """Count the weights of all networks, or of one."""
    options = options_of(__doc__, "lora_ranks.csv")
    cases = list(NETWORKS.items())[: 1 if options.quick else None]
    write_table(options.output, [row(*case) for case in cases], "keras-hub")


NETWORKS = {
    "EfficientNetLite0": lambda: tfdml.models.efficientnet_lite(weights=None),
    **{name: lambda name=name: application(name) for name in ("MobileNetV2", "ResNet50", "ConvNeXtTiny")},
    "ViT-B/16": vit,
}

if __name__ == "__main__":
    main()
