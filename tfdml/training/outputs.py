"""Outputs of a run: the model, its export with an index, the report, the card, and their checksums."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import export, search
from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import SUMS, fingerprint, write_checksums
from tfdml._core.environment import environment
from tfdml.datasets.readers.item_files import checksums_of, item_table
from tfdml.embedding.in_memory import embed
from tfdml.evaluation import Evaluation, evaluate
from tfdml.evaluation.details.chance import AT_CHANCE, is_at_chance
from tfdml.metrics.statistics.intervals import least_classes
from tfdml.networks import merge_lora
from tfdml.training.network import frozen_network, license_of
from tfdml.training.plan import Plan
from tfdml.training.progress import Stages
from tfdml.visualize import write_thumbnails
from tfdml.zoo.card import RUN_RECIPE, Card, write_card
from tfdml.zoo.entries import MODEL
from tfdml.zoo.paths import APART
from tfdml.zoo.publishing import bare, entries_of_model, entries_of_numbers, file_sizes

TRAINED, FROZEN = "trained network", "frozen network"
_LIMITATIONS = {
    "class": "Measured on classes that were not trained on, of the same set: other photographs may be harder.",
    "image": "Measured on other images of the classes that were trained on: classes that are new may be harder.",
}
_STAGES = 6  # of the outputs
_FROZEN_FILE = "state/frozen.npy"
_SELECTED = "The network with the highest MAP@R of the validation part, of those after each epoch and before training."
_TESTED = "The test part was measured once, after that."


def write_outputs(
    folder: Path, best: keras.Model, best_epoch: int, plan: Plan, command: str, say: Callable[[str], None]
) -> tuple[keras.Model, Evaluation, str]:
    """Write everything that is made of the best network; earlier outputs in the folder are replaced.

    What serves comes first, so that an evaluation that fails leaves it in the folder, with a RuntimeError. `best_epoch`
    is 0 where the network before training was better. The exported network embeds each image once, for the index and
    the evaluation. The result is the exported network, with LoRA merged, the evaluation of the trained and the frozen
    network on the reported part, the exported one first, and the verdict.
    """
    settings, images = plan.settings, plan.images
    (folder / SUMS).unlink(missing_ok=True)  # without it, the folder is no complete entry
    stages = Stages(_STAGES, say)
    stages.begin("embedding", f"{len(images):,} images")
    trained, exported = bare(merge_lora(best)), TRAINED if best_epoch else FROZEN
    model = trained if best_epoch else frozen_network(settings)
    embeddings = {exported: embed(model, images) if best_epoch else _completed(model, folder, plan)}
    _write_served(folder, model, images, embeddings[exported], stages)
    try:
        stages.begin("evaluation", f"of the {plan.reported} part, before and after training")
        embeddings |= {FROZEN: before_training(folder, plan)} if best_epoch else {TRAINED: _measured(trained, plan)}
        evaluation = evaluation_of_part(embeddings, plan)
        sentence = " ".join(_sentences(evaluation, best_epoch, plan, model.output_shape[-1]))
        stages.begin("report")
        evaluation.html(folder / "report.html", title=folder.resolve().name, verdict=sentence)
    except Exception as error:  # of any kind: what was trained for hours stays of use
        raise RuntimeError(
            f"The run is trained, and {str(folder)!r} has model, export and index, which tfdml serve takes; the "
            f"evaluation of its {plan.reported} part failed: {error}"
        ) from error
    texts = {
        "summary": _summary(settings, plan.train, best_epoch),
        "command": command,
        "selection": " ".join([_SELECTED, *([_TESTED] if plan.reported == "test" else []), sentence]),
        "limitations": _LIMITATIONS[settings.split_by],
        "license": license_of(settings, is_trained=best_epoch > 0),
    }
    stages.begin("card", "and checksums")
    write_card(folder, _card(folder, model, plan, evaluation, texts))
    write_checksums(folder, apart=APART)
    stages.end()
    return model, evaluation, sentence


def _write_served(folder, model, images, embeddings, stages):
    with atomic_write(folder / MODEL) as new:
        model.save(new)
    stages.begin("index", "with a thumbnail of each image")
    index = search.Exact(embeddings, metadata=item_table(images), model=fingerprint(model, images.load))
    index.save(folder / "index")
    write_thumbnails(folder / "thumbnails.npz", index.ids, images, versions=checksums_of(index))
    stages.begin("export", "of the network with its index")
    export.saved_model(
        model, folder / "1", preprocessing=images.load, class_names=images.class_names, index=index, on_error="skip"
    )


def _sentences(evaluation, best_epoch, plan, dim):
    yield verdict(evaluation, best_epoch)
    if dim != plan.settings.dim:
        size = f"{dim:,} numbers per image, {4 * dim:,} bytes in the index"
        yield f"It has {size}, in place of dim={plan.settings.dim}."
    if is_at_chance(evaluation, None if plan.gallery is None else plan.gallery.labels):
        yield f"Both networks are {AT_CHANCE}."


def verdict(evaluation: Evaluation, best_epoch: int) -> str:
    """One sentence on whether training helped, did not, or cannot be told; `best_epoch` 0 is before training."""
    if best_epoch == 0:
        return (
            "Training did not help: on the validation part, no epoch reached the MAP@R of the network before training, "
            "which is the one that is exported."
        )
    difference = evaluation.pairs[0].comparison  # trained - frozen
    if np.isnan(difference.low):
        reason = f"an interval needs {least_classes()} classes or more, and the queries have {difference.classes}"
        return f"It cannot be told whether training helped: {reason}."
    helped = "Training helped" if difference.better == TRAINED else "Training did not help"
    interval = f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f} points"
    details = f"95% interval, p = {difference.p:.2g}, {difference.queries:,} queries of {difference.classes:,} classes"
    beginning = helped if difference.better else "It cannot be told whether training helped"
    return f"{beginning}: against the network before training, MAP@R differs by {interval} ({details})."


def before_training(folder: Path, plan: Plan) -> np.ndarray:
    """Embeddings of `plan.measured_rows` before training, `(images, dim)`, and 0 in the other rows.

    A run computes them once, and keeps them in its folder.
    """
    path = folder / _FROZEN_FILE
    if not path.is_file():
        vectors = _measured(frozen_network(plan.settings), plan)[plan.measured_rows]
        with atomic_write(path) as new, new.open("wb") as file:
            np.save(file, vectors)
    return _in_rows(np.load(path), plan)


def _completed(network, folder, plan):
    """Embeddings of all images before training, of which those of the measured rows are known."""
    embeddings, others = before_training(folder, plan), np.delete(np.arange(len(plan.images)), plan.measured_rows)
    if len(others):
        embeddings[others] = embed(network, plan.images.take(others))
    return embeddings


def _measured(network, plan):
    """Embeddings of the measured rows `(images, dim)`, and 0 in the other rows."""
    return _in_rows(embed(network, plan.images.take(plan.measured_rows)), plan)


def _in_rows(vectors, plan):
    embeddings = np.zeros((len(plan.images), vectors.shape[1]), vectors.dtype)
    embeddings[plan.measured_rows] = vectors
    return embeddings


def evaluation_of_part(embeddings: Mapping[str, np.ndarray], plan: Plan) -> Evaluation:
    """The evaluation of the reported part of a plan, of embeddings `(images, dim)` of its set by name."""
    rows = plan.rows[plan.reported]
    gallery: dict[str, Any] = {}
    if plan.gallery is not None:
        gallery_vectors = {name: vectors[plan.rows["training"]] for name, vectors in embeddings.items()}
        gallery = {"gallery": plan.gallery, "gallery_embeddings": gallery_vectors}
    return evaluate({name: vectors[rows] for name, vectors in embeddings.items()}, plan.parts[plan.reported], **gallery)


def _card(folder, model, plan, evaluation, texts):
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-.") or "run"
    texts = {"name": name, "recipe": RUN_RECIPE, **texts}
    numbers = entries_of_numbers(evaluation, next(iter(evaluation.means)), evaluation.protocol, "cosine")
    facts = {"sizes": file_sizes(folder), **environment(), **entries_of_model(model, plan.images.load)}
    training = asdict(plan.settings) | {"dim": facts["dimension"]}  # the network before training has one of its own
    return Card(seed=plan.settings.seed, training=training, **texts, **numbers, **facts)


def _summary(settings, train, best_epoch):
    trained = f"{len(train):,} images of {len(np.unique(train.labels)):,} classes"
    if best_epoch == 0:
        return f"{settings.backbone} as it was before training on {trained}."
    return f"{settings.backbone} trained on {trained}."
