"""Outputs of a run: the model, its export with an index, the report, the card, and their checksums."""

import datetime
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np

from tfdml import evaluation, export, metrics, search
from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import SUMS, fingerprint, write_checksums
from tfdml._core.environment import environment
from tfdml.datasets.readers.item_files import checksums_of, item_table
from tfdml.embedding.in_memory import embed
from tfdml.evaluation import Evaluation
from tfdml.evaluation.report.chance import AT_CHANCE, is_at_chance
from tfdml.evaluation.report.page import page
from tfdml.metrics.statistics.confidence import least_classes
from tfdml.models import TextModel
from tfdml.networks import merge_lora
from tfdml.training.captions import TEXT, captions_of, evaluations_of_captions
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
_WIDTH = 24  # of a column
_STAGES = 6  # of the outputs
_FROZEN_FILE = "state/frozen.npy"
_SELECTED = "The network with the highest MAP@R of the validation part, of those after each epoch and before training."
_BY_CAPTIONS = "The network with the highest MAP@R of images for captions of the validation part, after each epoch."
_TESTED = "The test part was measured once, after that."


def write_outputs(
    folder: Path, best: keras.Model, best_epoch: int, plan: Plan, command: str, say: Callable[[str], None]
) -> tuple[keras.Model, dict[str, Evaluation], str]:
    """Write everything that is made of the best network; earlier outputs in the folder are replaced.

    What serves comes first, so that an evaluation that fails leaves it in the folder, with a RuntimeError. `best_epoch`
    is 0 where the network before training was better. The exported network embeds each image once, for the index and
    the evaluation. The result is the exported network, with LoRA merged, the evaluations of the trained and the frozen
    network on the reported part and of its captions, by name, and the verdict.
    """
    settings, images = plan.settings, plan.images
    (folder / SUMS).unlink(missing_ok=True)  # without it, the folder is no complete entry
    stages = Stages(_STAGES, say)
    stages.begin("embedding", f"{len(images):,} images")
    trained, exported = bare(merge_lora(getattr(best, "towers", [best])[-1])), TRAINED if best_epoch else FROZEN
    model = trained if best_epoch else frozen_network(settings)
    embeddings = {exported: embed(model, images) if best_epoch else _completed(model, folder, plan)}
    _write_served(folder, model, images, embeddings[exported], stages)
    if images.captions is not None:
        text_model = TextModel(settings.text_encoder, best.towers[0], fingerprint=fingerprint(model, images.load))
        text_model.save(folder / TEXT)
    try:
        stages.begin("evaluation", f"of the {plan.reported} part, before and after training")
        embeddings |= {FROZEN: before_training(folder, plan)} if best_epoch else {TRAINED: _measured(trained, plan)}
        evaluations = {name: evaluation_of_part(embeddings[name], plan) for name in (TRAINED, FROZEN)}
        sentence = verdict(evaluations[TRAINED], evaluations[FROZEN], best_epoch)
        dim = model.output_shape[-1]
        if dim != settings.dim:
            sentence += (
                f" It has {dim:,} numbers per image, {4 * dim:,} bytes in the index, in place of dim={settings.dim}."
            )
        gallery = None if plan.gallery is None else plan.gallery.labels
        if all(is_at_chance(each, gallery) for each in evaluations.values()):
            sentence += f" Both networks are {AT_CHANCE}."
        rows, captions = plan.rows[plan.reported], captions_of(plan.parts[plan.reported], settings.text_encoder)
        retrieved = evaluations_of_captions(captions, best.towers[0], embeddings[TRAINED][rows]) if captions else {}
        sentence = " ".join([sentence, *(_summary_of(name, each.metrics) for name, each in retrieved.items())])
        stages.begin("report")
        _write_report(folder, evaluations, exported, sentence)
    except Exception as error:  # of any kind: what was trained for hours stays of use
        raise RuntimeError(
            f"The run is trained, and {str(folder)!r} has model, export and index, which tfdml serve takes; the "
            f"evaluation of its {plan.reported} part failed: {error}"
        ) from error
    selected = _SELECTED if images.captions is None else _BY_CAPTIONS
    texts = {
        "summary": _summary(settings, plan.train, best_epoch),
        "command": command,
        "selection": " ".join([selected, *([_TESTED] if plan.reported == "test" else []), sentence]),
        "limitations": _LIMITATIONS[settings.split_by],
        "license": license_of(settings, is_trained=best_epoch > 0),
    }
    stages.begin("card", "and checksums")
    write_card(folder, _card(folder, model, settings, images.load, evaluations[exported], texts))
    write_checksums(folder, apart=APART)
    stages.end()
    return model, evaluations | retrieved, sentence


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


def verdict(trained: Evaluation, frozen: Evaluation, best_epoch: int) -> str:
    """One sentence on whether training helped, did not, or cannot be told; `best_epoch` 0 is before training."""
    if best_epoch == 0:
        return (
            "Training did not help: on the validation part, no epoch reached the MAP@R of the network before training, "
            "which is the one that is exported."
        )
    after, before = (each.per_query.values["map@r"] for each in (trained, frozen))
    difference = metrics.paired_comparison(after, before, trained.per_query.labels, seed=trained.seed)
    if np.isnan(difference.low):
        reason = f"an interval needs {least_classes()} classes or more, and the queries have {difference.classes}"
        return f"It cannot be told whether training helped: {reason}."
    is_clear = difference.p <= 0.05 and not difference.low <= 0 <= difference.high
    helped = "Training helped" if difference.low > 0 else "Training did not help"
    interval = f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f} points"
    details = f"95% interval, p = {difference.p:.2g}, {difference.queries:,} queries of {difference.classes:,} classes"
    beginning = helped if is_clear else "It cannot be told whether training helped"
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


def evaluation_of_part(embeddings: np.ndarray, plan: Plan) -> Evaluation:
    """The evaluation of the reported part of a plan, of embeddings `(images, dim)` of its set."""
    gallery = {}
    if plan.gallery is not None:
        gallery = {"gallery": plan.gallery, "gallery_embeddings": embeddings[plan.rows["training"]]}
    return evaluation.evaluate(embeddings[plan.rows[plan.reported]], plan.parts[plan.reported], **gallery)


def _summary_of(name, means):
    return f"{name.capitalize()}, in %: Recall@1 {_number(means['recall@1'])}, MAP@R {_number(means['map@r'])}."


def _write_report(folder, evaluations, exported, sentence):
    others = {name: each for name, each in evaluations.items() if name != exported}
    title = f"{folder.resolve().name}, {datetime.date.today()}"
    text = page(evaluations[exported], others, title=title, sentence=sentence)
    with atomic_write(folder / "report.html") as new:
        new.write_text(text, encoding="utf-8")


def _card(folder, model, settings, preprocessing, exported, texts):
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-.") or "run"
    texts = {"name": name, "recipe": RUN_RECIPE, **texts}
    numbers = entries_of_numbers(exported, exported.protocol, "cosine")
    facts = {"sizes": file_sizes(folder), **environment(), **entries_of_model(model, preprocessing)}
    training = asdict(settings) | {"dim": facts["dimension"]}  # the network before training has a dimension of its own
    return Card(seed=settings.seed, training=training, **texts, **numbers, **facts)


def _summary(settings, train, best_epoch):
    trained = f"{len(train):,} images of {len(np.unique(train.labels)):,} classes"
    if best_epoch == 0:
        return f"{settings.backbone} as it was before training on {trained}."
    return f"{settings.backbone} trained on {trained}."


def differences(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """Lines of a table of the metrics of several networks, in %, with 95% intervals."""
    names = next(iter(evaluations.values())).metrics
    rows = [[name, *(_number(each.metrics[name]) for each in evaluations.values())] for name in names]
    return ["".join(f"{cell:{_WIDTH}}" for cell in row).rstrip() for row in [["%", *evaluations], *rows]]


def _number(mean):
    """A mean with its interval; a mean alone with too few classes for one, which the sentence below the table says."""
    value = f"{100 * mean.value:.1f}"
    return value if math.isnan(mean.low) else f"{value}  ({mean.interval})"
