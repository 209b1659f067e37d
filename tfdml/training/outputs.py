"""Outputs of a run: the model, its export with an index, the report, the card, and checksums of all files."""

import datetime
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np

from tfdml import evaluation, export, search
from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import SUMS, fingerprint, write_checksums
from tfdml._core.environment import environment
from tfdml.datasets import LabeledSet
from tfdml.embedding.in_memory import embed
from tfdml.evaluation import Evaluation
from tfdml.networks import merge_lora
from tfdml.training.data_splits import DataSplits
from tfdml.training.network import frozen_network, preprocessing_of
from tfdml.training.settings import TrainingSettings
from tfdml.visualize import write_thumbnails
from tfdml.zoo.card import Card, write_card
from tfdml.zoo.entries import MODEL
from tfdml.zoo.publishing import bare, entries_of_model, entries_of_numbers, file_sizes

TRAINED, FROZEN = "trained network", "frozen network"
_LIMITATIONS = {
    "class": "Measured on classes that were not trained on, of the same set: other photographs may be harder.",
    "image": "Measured on other images of the classes that were trained on: classes that are new may be harder.",
}
_WIDTH = 24  # of a column
_SELECTED = "The epoch with the highest MAP@R of the validation part."


def write_outputs(
    folder: Path, best: keras.Model, settings: TrainingSettings, images: LabeledSet, splits: DataSplits, command: str
) -> tuple[keras.Model, dict[str, Evaluation]]:
    """Write everything that is made of the best network; earlier outputs in the folder are replaced.

    Args:
        folder: folder of the run.
        best: the network of the best epoch.
        settings: settings of the run.
        images: all usable images, which become the index.
        splits: their parts; the report is of the test part, or of the validation part where there is none.
        command: the command line of the run.

    Returns:
        model: the network with LoRA merged.
        evaluations: the trained and the frozen network on the reported part, by name.
    """
    (folder / SUMS).unlink(missing_ok=True)  # without it, the folder is no complete entry
    model = bare(merge_lora(best))
    with atomic_write(folder / MODEL) as new:
        model.save(new)
    embeddings = embed(model, images)
    evaluations = {
        TRAINED: _evaluation(embeddings[splits.reported_rows], splits, embeddings[splits.train_rows]),
        FROZEN: _frozen_evaluation(settings, splits),
    }
    title = f"{folder.resolve().name}, {datetime.date.today()}"
    evaluations[TRAINED].html(folder / "report.html", baselines={FROZEN: evaluations[FROZEN]}, title=title)
    view = preprocessing_of(settings, images)
    index = search.Exact(embeddings, metadata=_columns(images), model=fingerprint(model, view))
    index.save(folder / "index")
    write_thumbnails(folder / "thumbnails.npz", index.ids, images)
    export.saved_model(
        model, folder / "1", preprocessing=view, class_names=images.class_names, index=index, on_error="skip"
    )
    card = _card(folder, model, settings, view, splits, evaluations[TRAINED], command)
    write_card(folder, card)
    write_checksums(folder)
    return model, evaluations


def _evaluation(embeddings, splits, train_embeddings):
    gallery = {} if splits.gallery is None else {"gallery": splits.gallery, "gallery_embeddings": train_embeddings}
    return evaluation.evaluate(embeddings, splits.reported, **gallery)


def _frozen_evaluation(settings, splits):
    network = frozen_network(settings)
    train_embeddings = None if splits.gallery is None else embed(network, splits.gallery)
    return _evaluation(embed(network, splits.reported), splits, train_embeddings)


def _columns(images):
    """Class and path of all images, the metadata of their index."""
    paths = {} if images.paths is None else {"path": images.paths}
    return {"class": np.array(images.class_names)[images.labels], **paths}


def _card(folder, model, settings, preprocessing, splits, trained, command):
    texts = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-.") or "run",
        "summary": _summary(settings, splits.train),
        "recipe": "tfdml train",
        "command": command,
        "license": "not stated",
        "selection": _SELECTED + ("" if splits.test is None else " The test part was measured once, after that."),
        "limitations": _LIMITATIONS[splits.split_by],
    }
    numbers = entries_of_numbers(trained, trained.protocol, "cosine")
    facts = {"sizes": file_sizes(folder), **environment(), **entries_of_model(model, preprocessing)}
    return Card(seed=settings.seed, training=asdict(settings), **texts, **numbers, **facts)


def _summary(settings, train):
    return f"{settings.backbone} trained on {len(train):,} images of {len(np.unique(train.labels)):,} classes."


def differences(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """Lines of a table of the metrics of several networks, in %, with 95% intervals."""
    metrics = next(iter(evaluations.values())).metrics
    rows = [[name, *(_number(each.metrics[name]) for each in evaluations.values())] for name in metrics]
    return ["".join(f"{cell:{_WIDTH}}" for cell in row).rstrip() for row in [["%", *evaluations], *rows]]


def _number(mean):
    return f"{100 * mean.value:.1f}  ({mean.interval})"
