"""Table 1 from a trained network, all of whose layers are trained on.

As `trained_start`, with a smaller network and without fixed features: a convolution that halves the images, then
residual blocks, trained on every other training character. A new linear layer of 64 outputs and all other layers are
trained on the other 338 characters; batch normalization keeps its averages, scales and offsets.
"""

import functools
from dataclasses import dataclass, replace

import keras

import tfdml
from studies import characters, compiled
from studies.importance_sampling import trained_start
from studies.importance_sampling.batch_designs import table
from studies.importance_sampling.setting import PER_CLASS
from studies.leaderboard import starts

RATES = (1e-4, 3e-4, 1e-3, 3e-3)


@dataclass(frozen=True)
class Run(trained_start.Run):
    """The settings of one training run, and its network.

    Attributes:
        steps: number of training steps, half of those of a linear layer.
        channels: channels of the residual blocks, such as "16-32"; the first convolution has those of the first block.
    """

    steps: int = 1000
    channels: str = "16-32-64-128"


def rows(options):
    """One row per run: each design and lambda, without and with weights."""
    base = Run(steps=20, classes=40, channels="4-8") if options.quick else Run()
    options = replace(options, base=base, train=train, train_seeds=None, rates=RATES)
    return trained_start.rows_of_designs(options)


def train(run):
    """Train one run and return its results: Recall@k and MAP@R of the validation and the test classes."""
    compiled.forget()
    return trained_start.results_of([run], parts(run), functools.partial(trained_start.by_design, network))[0]


def parts(run):
    """Images of the training, validation and test characters: of the first ones in a quick run."""
    held_out = starts.data_of("glyphs", "random")
    if run.classes == Run.classes:
        return starts.images_of_glyphs(PER_CLASS), held_out["validation"], held_out["test"]
    few = (characters.first_classes(held_out[name], run.classes) for name in ("validation", "test"))
    return starts.images_of_glyphs(PER_CLASS, run.classes), *few


def network(run, training):
    """The trained network with a new linear layer over its last feature map."""
    widths = tuple(map(int, run.channels.split("-")))
    if run.classes == Run.classes:
        trained = starts.kept_on_glyphs(f"glyphs-{run.channels}", widths, stem=widths[:1])
    else:
        trained = starts.trained_on_glyphs(widths, steps=2, stem=widths[:1])
    keras.utils.set_random_seed(run.seed)
    last_map = next(layer for layer in trained.layers if isinstance(layer, keras.layers.Flatten)).output
    backbone = keras.Model(trained.input, last_map)
    return tfdml.models.from_backbone(backbone, dim=64, freeze_batch_norm=True, normalize=False)


def tables(rows):
    """Recall@1 of each design, and the spread over designs."""
    return {"whole": table(rows)}
