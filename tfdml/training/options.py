"""The settings of a training run, each once: its name, its values, and the text of `tfdml train --help`.

This module imports nothing but the standard library, because the command line executes it before Keras is imported.
"""

from typing import Annotated, Any, Literal, TypedDict, get_args, get_type_hints

Split = Literal["class", "image"]
Tuning = Literal["head", "lora", "all"]
Loss = Literal["multi-similarity", "triplet", "contrastive", "supcon", "nt-xent", "proxy-anchor", "arcface"]
Pooling = Literal["avg", "max", "avg+max", "gem", "token", "token+avg"]
Fit = Literal["pad", "crop", "stretch"]


class TrainingOptions(TypedDict, total=False):
    """The settings that a caller gives: type, text, and the least whole number. The others follow from the set."""

    split_by: Annotated[Split, "what the parts do not share: classes, or images only"]
    validation: Annotated[float, "fraction of the classes or images to choose the best epoch on"]
    test: Annotated[float, "fraction of the classes or images to measure once at the end; 0 for none"]
    seed: Annotated[int, "of the split, the weights and the batches"]
    backbone: Annotated[str, "network of tfdml.models.from_backbone, or residual for a small one with random weights"]
    weights: Annotated[str, "imagenet, a file of weights, or none for random ones"]
    pooling: Annotated[Pooling, "of feature maps or tokens"]
    dim: Annotated[int, "size of the embedding", 1]
    size: Annotated[int, "height and width of the input in pixels", 16]
    fit: Annotated[Fit, "how an image becomes a square"]
    mirror: Annotated[bool, "mirror images at random in training"]
    tuning: Annotated[Tuning, "what is trained: the head, low-rank updates and the head, all"]
    lora_rank: Annotated[int, "rank of the updates, for --tuning lora", 1]
    loss: Annotated[Loss, "loss"]
    learning_rate: Annotated[float, "highest learning rate"]
    classes_per_batch: Annotated[int, "classes of a batch", 2]
    examples_per_class: Annotated[int, "images of each class of a batch", 2]
    micro_batch_size: Annotated[int, "images that the network takes at a time; 0 for the whole batch", 0]
    steps: Annotated[int, "batches of the run", 1]
    epochs: Annotated[int, "parts of the run, each followed by an evaluation", 1]


SETTINGS: dict[str, tuple[Any, ...]] = {
    name: get_args(hint) for name, hint in get_type_hints(TrainingOptions, include_extras=True).items()
}
"""Type, text, and the least whole number where there is one, of each setting."""
