"""The vehicle network of the slides on glyphs: two branches against one, and coupled clusters against triplets.

A model is a character, and a vehicle its drawings by one type design: a few styles, each in four views. As in
VehicleID, training and test have other vehicles of the same models. Of the vehicles of the training characters, three
fifths are trained, one fifth chooses the rates, and one fifth is the test.
"""

import functools
import time
from dataclasses import asdict, dataclass, field, replace

import keras
import numpy as np

import tfdml
from recipes import reidentification as recipe
from studies import characters, runner
from studies.reidentification import setting

NETWORKS = ("one branch", "two branches")
LOSSES = {"triplets": tfdml.losses.TripletLoss, "coupled clusters": tfdml.losses.CoupledClustersLoss}
RATES = (1e-3, 3e-3, 1e-2)
PARTS = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}  # fifths of the vehicles
DIM = 128  # of each branch and of the embedding
KEY = "cmc@1"


@dataclass(frozen=True)
class Run:
    """The settings of one training run.

    Attributes:
        network: one of `NETWORKS`.
        loss: a key of `LOSSES`.
        learning_rate: highest learning rate of Adam.
        seed: seed of the network and the batches.
        part: the part that is measured, "validation" in trials and "test" in the runs of what they chose.
        steps: number of training steps.
        classes: the largest number of models.
    """

    network: str = "two branches"
    loss: str = "coupled clusters"
    learning_rate: float = 3e-3
    seed: int = 0
    part: str = "test"
    steps: int = 400
    classes: int = 10_000


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Vehicles(tfdml.datasets.LabeledSet):
    """Images whose classes are vehicles, and the model of each."""

    models: np.ndarray = field(metadata={"column": True})


def train(run):
    """Train one run and return its results on the part that it measures: each vehicle has one image in the gallery."""
    begin = time.process_time()
    keras.backend.clear_session()
    training, measured = (vehicles(part, run.classes) for part in ("train", run.part))
    x = tfdml.models.embed(trained(run, training), measured.images)
    scores = tfdml.metrics.random_gallery(x, measured.labels)
    return {
        "run": asdict(run),
        "scores": {key: scores[key] for key in (KEY, "cmc@5", "map")},
        "core_seconds": round(time.process_time() - begin, 1),
        "protocol": measured.protocol,
        **tfdml.environment(),
    }


def trained(run, data):
    """The embedding of a network after training."""
    keras.utils.set_random_seed(run.seed)
    images = keras.Input((32, 32, 1), dtype="uint8")
    sampler = tfdml.samplers.PKSampler(classes_per_batch=18, examples_per_class=4, seed=run.seed)
    batches, loss = sampler.batches(data), LOSSES[run.loss]()
    if run.network == "two branches":
        outputs = recipe.vehicle_network(
            images, num_models=int(data.models.max()) + 1, dim=DIM, trunk=recipe.features_of
        )
        whole, model = (tfdml.models.EmbeddingModel(images, output) for output in (outputs, outputs["embedding"]))
        loss, batches = recipe.two_losses(data, batches, loss)
    else:
        features = keras.layers.Dense(2 * DIM, "relu")(recipe.features_of(images))
        whole = model = tfdml.models.EmbeddingModel(
            images, keras.layers.UnitNormalization()(keras.layers.Dense(DIM)(features))
        )
    warmup = run.steps // 10
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, run.steps - warmup, warmup_target=run.learning_rate, warmup_steps=warmup
    )
    whole.compile(keras.optimizers.Adam(schedule), loss=loss, jit_compile=False)
    whole.fit(batches, steps_per_epoch=run.steps, shuffle=False, verbose=0)
    return model


@functools.cache
def vehicles(part, classes):
    """A part of the vehicles, of the first training characters."""
    glyphs, *_ = tfdml.datasets.glyphs(validation=True, views=4)
    glyphs = characters.first_classes(glyphs, classes)
    pairs, labels = np.unique(np.stack([glyphs.labels, glyphs.designs], axis=1), axis=0, return_inverse=True)
    whole = Vehicles(
        images=glyphs.images,
        labels=labels.ravel(),
        class_names=tuple(f"{glyphs.class_names[model]}, {glyphs.design_names[design]}" for model, design in pairs),
        models=glyphs.labels,
        protocol=f"{glyphs.protocol}/vehicles/single-gallery-x10",
    )
    fifths = 5 * np.random.default_rng(0).permutation(len(pairs)) // len(pairs)
    return whole.select_classes(np.flatnonzero(np.isin(fifths, PARTS[part])))


def rows(options):
    """One row per arm and rate, of the validation vehicles, and one per arm and seed, of the test vehicles."""
    base = Run(steps=options.base.steps, classes=options.base.classes)
    made = replace(options, train=train)
    arms = [replace(base, network=network, loss=loss) for network in NETWORKS for loss in LOSSES]
    trials = [[replace(arm, learning_rate=rate, part="validation") for rate in RATES] for arm in arms]
    best = [
        max(zip(group, runner.finished(group, made), strict=True), key=lambda pair: pair[1]["scores"][KEY])[0]
        for group in trials
    ]
    tested = [replace(run, part="test", seed=seed) for run in best for seed in options.seeds]
    results = runner.finished([*(run for group in trials for run in group), *tested], made)
    about = ("core_seconds", "protocol", "hardware", "versions")
    return [{**result["run"], **result["scores"], **{key: result[key] for key in about}} for result in results]


def tables(rows):
    """CMC@1 of each network and loss with its 95% interval over seeds, and the differences, paired by seeds."""
    tested = runner.where(rows, part="test")
    one, two = ([runner.where(tested, network=network, loss=loss) for loss in LOSSES] for network in NETWORKS)
    body = [
        [name, *(setting.share(each, KEY) for each in (*row, _less(row[1], row[0])))]
        for name, row in zip(NETWORKS, (one, two), strict=True)
    ]
    gains = [setting.share(_less(better, worse), KEY) for better, worse in zip(two, one, strict=True)]
    head = ["CMC@1", *LOSSES, "clusters above triplets"]
    return {"vehicles": runner.markdown(head, [*body, ["two above one", *gains, ""]], texts=(0,))}


def _less(better, worse):
    """The differences of rows of the same seeds, as rows."""
    return [{KEY: one[KEY] - other[KEY]} for one, other in zip(better, worse, strict=True)]
