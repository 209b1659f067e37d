"""A finished run, and the functions that write its files: network, index, thumbnails, export, report, card."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import export, metrics, search
from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import SUMS, fingerprint, write_checksums
from tfdml._core.optional import environment, has_tensorflow
from tfdml.datasets import LabeledSet
from tfdml.datasets.readers.item_files import checksums_of, item_table
from tfdml.embedding.in_memory import embed
from tfdml.evaluation import Evaluation, evaluate
from tfdml.evaluation.details.chance import AT_CHANCE, is_at_chance
from tfdml.evaluation.statistics import Measurements, compared
from tfdml.export.saved_model import CALIBRATION
from tfdml.metrics.statistics.intervals import least_classes
from tfdml.metrics.verification import auc_per_pair
from tfdml.networks import merge_lora
from tfdml.training.network import license_of
from tfdml.training.plan import Plan
from tfdml.training.progress import METRICS, Stages
from tfdml.visualize import write_thumbnails
from tfdml.zoo.card import RUN_RECIPE, Card, write_card
from tfdml.zoo.entries import MODEL
from tfdml.zoo.paths import APART
from tfdml.zoo.publishing import bare, entries_of_model, entries_of_numbers, file_sizes

TRAINED, FROZEN = "trained network", "frozen network"
_SUMMARIES = {TRAINED: "{} trained on {}.", FROZEN: "{} as it was before training on {}."}
_LIMITATIONS = {
    "class": "Measured on classes that were not trained on, of the same set: other photographs may be harder.",
    "image": "Measured on other images of the classes that were trained on: classes that are new may be harder.",
    "views": "Measured on views of single images: they do not tell whether two photographs of one thing are near.",
}
_STAGES = 6
_AUC = "auc"  # the metric of pairs: the area under the ROC curve
_FROZEN_FILE = "state/frozen.npy"
_SELECTED = "The network with the highest {} of the validation part, of those after each epoch and before training."
_TESTED = "The test part was measured once, after that."
_BY_VIEWS = (
    "These are views of one image each; whether two photographs of one thing are nearer, a few labels would tell "
    "(--labels)."
)
_NO_LABELS = "the set has no classes to compare scores with"
_NOT_BETTER = "Training did not help: no epoch reached the {} of the network before training. That one is exported."


@dataclass(frozen=True, eq=False, kw_only=True)
class FinishedRun:
    """A trained run: the network that is exported, by its name, and embeddings `(images, dim)` of all images.

    `other` returns embeddings by the other network, of the rows that are measured, and `other_model` that network.
    """

    plan: Plan
    exported: str
    model: keras.Model
    embeddings: np.ndarray
    other: Callable[[], np.ndarray]
    other_model: Callable[[], keras.Model]
    best_epoch: int

    @cached_property
    def evaluation(self) -> Evaluation:
        """The evaluation of both networks on the reported part, the exported one first."""
        return self._evaluation()

    @cached_property
    def retrieval(self) -> Evaluation:
        """The evaluation for the card, which has metrics of retrieval: where pairs decide, of views."""
        return self.evaluation if self.plan.pairs is None else self._evaluation(by_pairs=False)

    def _evaluation(self, **options):
        other = FROZEN if self.exported == TRAINED else TRAINED
        embeddings = {self.exported: self.embeddings, other: self.other()}
        networks = {self.exported: lambda: self.model, other: self.other_model}
        return evaluation_of_part(embeddings, self.plan, networks, **options)

    def searches(self, name: str) -> dict[str, np.ndarray]:
        """The embeddings and labels of a part and of the training part, and which of them are `queries`: the part."""
        rows = np.concatenate([self.plan.rows[name], self.plan.rows["training"]])
        queries = np.arange(len(rows)) < len(self.plan.rows[name])
        return {"embeddings": self.embeddings[rows], "labels": self.plan.images.labels[rows], "queries": queries}

    def meaning(self, calibration: metrics.ScoreCalibration) -> str:
        """One sentence: how far probabilities are from what the reported part shows."""
        scores, same, classes = metrics.search_outcomes(**self.searches(self.plan.reported), prior=calibration.prior)
        ece = metrics.reliability(calibration(scores), same, classes=classes).ece
        return (
            f"where {100 * calibration.prior:g} of 100 queries have a match, the probability that the nearest item is "
            f"one is off by {100 * ece:.1f} points ({self.plan.reported} part, {len(scores):,} searches)."
        )

    @cached_property
    def verdict(self) -> str:
        """Sentences on the training: whether it helped, and on another dimension, and on results at chance."""
        is_unreached = self.exported == FROZEN and not self.best_epoch
        told = verdict(self.evaluation, are_views=self.plan.are_views)
        sentences = [_NOT_BETTER.format(METRICS[self.plan.metric]) if is_unreached else told]
        if self.exported == FROZEN and not is_unreached:
            sentences.append("The network before training is exported.")
        if self.plan.are_views and self.plan.pairs is None:
            sentences.append(_BY_VIEWS)
        dim, expected = self.embeddings.shape[1], self.plan.settings.dim
        if expected not in (0, dim):
            size = f"{dim:,} numbers per image, {4 * dim:,} bytes in the index, in place of dim={expected}"
            sentences.append(f"It has {size}.")
        gallery = None if self.plan.gallery is None else self.plan.gallery.labels
        if self.plan.pairs is None and is_at_chance(self.evaluation, gallery):
            sentences.append(f"Both networks are {AT_CHANCE}.")
        return " ".join(sentences)


def write_outputs(
    folder: Path, best: keras.Model, best_epoch: int, plan: Plan, origin: dict[str, Any], log: Callable[[str], None]
) -> FinishedRun:
    """Write all files that are made of the best network; earlier ones in the folder are replaced.

    `origin` has the `command` of the run and the `license` that it states, or None, for the card.
    The files that serve come first: an evaluation that fails is a RuntimeError, and leaves them in the folder.
    """
    (folder / SUMS).unlink(missing_ok=True)  # without it, the folder is no complete entry
    stages = Stages(_STAGES, log)
    stages.begin("embedding", f"{len(plan.images):,} images")
    run = finished_run(folder, best, best_epoch, plan)
    if plan.settings.unlabeled and run.exported == TRAINED and run.evaluation.pairs[0].comparison.better != TRAINED:
        run = replace(finished_run(folder, best, 0, plan), best_epoch=best_epoch)
    with atomic_write(folder / MODEL) as new:
        run.model.save(new)
    stages.begin("index", "with a thumbnail of each image")
    index = _write_index(folder, run)
    calibration, meaning = _write_calibration(folder, run, index.fingerprint)
    if has_tensorflow():
        stages.begin("export", "of the network with its index")
        _write_export(folder, run, index, calibration)
    else:
        stages.begin("no export", "for tfdml serve, which needs tensorflow: pip install tfdml[tensorflow]")
    try:
        stages.begin("evaluation", f"of the {plan.reported} part, before and after training")
        sentence = run.verdict
        stages.begin("report")
        run.evaluation.html(folder / "report.html", title=folder.resolve().name, verdict=sentence)
    except Exception as error:  # of any kind: what was trained for hours stays of use
        raise RuntimeError(
            f"The run is trained, and {str(folder)!r} has model, export and index, which tfdml serve takes; the "
            f"evaluation of its {plan.reported} part failed: {error}"
        ) from error
    stages.begin("card", "and checksums")
    _write_card(folder, run, **origin)
    write_checksums(folder, apart=APART)
    stages.end()
    log(meaning)
    return run


def finished_run(folder: Path, best: keras.Model, best_epoch: int, plan: Plan) -> FinishedRun:
    """The run of a plan whose best network is known; in epoch 0, that is the one before training."""
    trained, frozen = bare(merge_lora(best)), partial(before_training, folder, plan)
    if best_epoch:
        embeddings = embed(trained, plan.images)
        networks = {"model": trained, "other_model": lambda: plan.frozen}
        return FinishedRun(
            plan=plan, exported=TRAINED, embeddings=embeddings, other=frozen, best_epoch=best_epoch, **networks
        )
    model, vectors = plan.frozen, frozen()
    unmeasured = np.delete(np.arange(len(plan.images)), plan.measured_rows)
    if len(unmeasured):
        vectors[unmeasured] = embed(model, plan.images.take(unmeasured))
    other = partial(measured_rows, trained, plan.images, plan)
    networks = {"model": model, "other_model": lambda: trained}
    return FinishedRun(plan=plan, exported=FROZEN, embeddings=vectors, other=other, best_epoch=0, **networks)


def _write_index(folder, run):
    images = run.plan.images
    index = search.Exact(run.embeddings, metadata=item_table(images), model=fingerprint(run.model, images.load))
    index.save(folder / "index")
    write_thumbnails(folder / "thumbnails.npz", index.ids, images, versions=checksums_of(index))
    return index


def _write_calibration(folder, run, model):
    """The calibration on searches of the validation part, None where it is too small, and a line on it or why."""
    (folder / CALIBRATION).unlink(missing_ok=True)  # of an interrupted run
    if run.plan.settings.unlabeled:
        return None, f"No probability beside the scores: {_NO_LABELS}."
    try:
        calibration = metrics.ScoreCalibration.fit_search(**run.searches("validation"), model=model)
    except ValueError as error:
        return None, f"No probability beside the scores: {error}"
    with atomic_write(folder / CALIBRATION) as new:
        new.write_text(json.dumps(calibration.as_dict(), indent=1), encoding="utf-8")
    return calibration, f"Scores: {run.meaning(calibration)}"


def _write_export(folder, run, index, calibration):
    images = run.plan.images
    facts = {"preprocessing": images.load, "class_names": images.class_names, "calibration": calibration}
    export.saved_model(run.model, folder / "1", **facts, index=index, on_error="skip")


def _write_card(folder, run, command, license):
    settings, train = run.plan.settings, run.plan.train
    classes = "without classes" if settings.unlabeled else f"of {len(np.unique(train.labels)):,} classes"
    trained_on = f"{len(train):,} images {classes}"
    measured_on = "views" if run.plan.are_views else settings.split_by
    selected = _SELECTED.format(METRICS[run.plan.metric])
    tested = [_TESTED] if run.plan.reported == "test" else []
    texts = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-.") or "run",
        "recipe": RUN_RECIPE,
        "summary": _SUMMARIES[run.exported].format(settings.backbone, trained_on),
        "command": command,
        "selection": " ".join([selected, *tested, run.verdict]),
        "limitations": _LIMITATIONS[measured_on],
        "license": license or license_of(settings, is_trained=run.exported == TRAINED),
    }
    numbers = entries_of_numbers(run.retrieval, run.exported, run.retrieval.protocol, "cosine")
    facts = {"sizes": file_sizes(folder), **environment(), **entries_of_model(run.model, run.plan.images.load)}
    training = asdict(settings) | {"dim": facts["dimension"]}  # the network before training has one of its own
    write_card(folder, Card(seed=settings.seed, training=training, **texts, **numbers, **facts))


def verdict(evaluation: Evaluation, *, are_views: bool = False) -> str:
    """One sentence: training helped, did not help, or cannot be told."""
    difference = evaluation.pairs[0].comparison
    sign = 1 if difference.names[0] == TRAINED else -1
    if np.isnan(difference.low):
        reason = f"an interval needs {least_classes()} {evaluation.unit} or more, and there are {difference.classes}"
        return f"It cannot be told whether training helped: {reason}."
    low, high = sorted((100 * sign * difference.low, 100 * sign * difference.high))
    details = f"(95% interval, p = {difference.p:.2g}, {counted_queries(evaluation, are_views)})"
    told = {TRAINED: "Training helped", FROZEN: "Training did not help"}
    beginning = told.get(difference.better, "It cannot be told whether training helped")
    metric = METRICS.get(evaluation.main, "AUC")
    against = "against the network before training"
    return f"{beginning}: {against}, {metric} differs by {low:+.1f} to {high:+.1f} points {details}."


def counted_queries(evaluation: Evaluation, are_views: bool) -> str:
    """The number of measured pairs, views or queries, such as "56 queries of 7 classes"."""
    if evaluation.main == _AUC:
        return f"{evaluation.queries:,} pairs of {evaluation.units:,} groups"
    kind = "views" if are_views else f"queries of {evaluation.units:,} classes"
    return f"{evaluation.queries:,} {kind}"


def evaluation_of_part(
    embeddings: Mapping[str, np.ndarray],
    plan: Plan,
    networks: Mapping[str, Callable[[], keras.Model]],
    *,
    by_pairs: bool = True,
) -> Evaluation:
    """The evaluation of the reported part of a plan, or of its pairs, of embeddings `(images, dim)` of its set by name.

    `networks` embed the views of the part, if it has some.
    """
    if by_pairs and plan.pairs is not None:
        return _evaluation_of_pairs(embeddings, plan.pairs, plan.images.paths)
    reported = "validation" if plan.pairs is not None else plan.reported
    gallery: dict[str, Any] = {}
    queries = {name: vectors[plan.rows[reported]] for name, vectors in embeddings.items()}
    if plan.gallery is not None:
        rows = plan.rows["gallery" if plan.are_views else "training"]
        gallery_vectors = {name: vectors[rows] for name, vectors in embeddings.items()}
        gallery = {"gallery": plan.gallery, "gallery_embeddings": gallery_vectors}
    if plan.are_views:
        queries = {name: embed(networks[name](), plan.parts[reported]) for name in embeddings}
    return evaluate(queries, plan.parts[reported], main=plan.metric, **gallery)


def _evaluation_of_pairs(embeddings, pairs, paths):
    """The area under the ROC curve of pairs, over groups of those that have an image in common."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    scores = {name: metrics.pair_scores(x[pairs.first], x[pairs.second]) for name, x in embeddings.items()}
    values = {name: {_AUC: auc_per_pair(each, pairs.same)} for name, each in scores.items()}
    edges = coo_array((np.ones(len(pairs)), (pairs.first, pairs.second)), shape=(len(paths), len(paths)))
    groups = connected_components(edges, directed=False)[1][pairs.first]
    names = np.array([f"{paths[a]} and {paths[b]}" for a, b in zip(pairs.first, pairs.second, strict=True)])
    measured = Measurements(values, groups, "groups", names)
    return compared(measured, groups={}, confidence=0.95, shown=5, items=len(paths))


def measured_rows(network: Any, images: LabeledSet, plan: Plan, **options: Any) -> np.ndarray:
    """Embeddings `(images, dim)` of the rows of a set that a plan measures, and 0 in the other rows."""
    return _in_rows(embed(network, images.take(plan.measured_rows), **options), plan)


def before_training(folder: Path, plan: Plan) -> np.ndarray:
    """As `measured_rows`, by the network before training: a run computes them once, and keeps them in its folder."""
    path = folder / _FROZEN_FILE
    if not path.is_file():
        vectors = embed(plan.frozen, plan.images.take(plan.measured_rows))
        with atomic_write(path) as new, new.open("wb") as file:
            np.save(file, vectors)
    return _in_rows(np.load(path), plan)


def _in_rows(vectors, plan):
    embeddings = np.zeros((len(plan.images), vectors.shape[1]), vectors.dtype)
    embeddings[plan.measured_rows] = vectors
    return embeddings
