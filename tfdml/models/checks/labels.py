"""Check the labels of batches before they reach a compiled step, which cannot raise an error.

In a compiled step, a label that proxies do not know makes the loss NaN, and then the network. So the loss is traced
once without values, and notes what it demands of them (`tfdml.pairs.conditions`). Labels of arrays and of samplers are
checked before the first step, batches of other data on their way into the step.
"""

import contextlib
import itertools
import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from tfdml._core.backends import looked_at
from tfdml._core.checks import how_to_number, require
from tfdml.layers.base import unchanged
from tfdml.models.checks.collapse import CollapseWatch
from tfdml.models.checks.fit_arguments import require_order
from tfdml.models.checks.outputs import as_array, compares_ids, labels_of, losses_of, terms
from tfdml.models.checks.pixels import expects_other_pixels, require_pixels
from tfdml.pairs import (
    all_pairs,
    consecutive_pairs,
    even_against_odd,
    labeled_pairs,
    triplet_rows,
    two_towers,
    two_views,
)
from tfdml.pairs.conditions import Conditions, noted

_KERAS_BATCH_SIZE = 32  # of arrays
_ROWS = 48  # of a batch of unknown size: pairs, triplets and small groups divide it
_COUNTED_BATCHES = 16  # whose anchors with positives are counted
_NEIGHBORS = {2: (consecutive_pairs, even_against_odd, labeled_pairs, two_views), 3: (triplet_rows,)}
_COUNTED = (all_pairs, even_against_odd, two_towers)
_FEW_PAIRS = 0.1  # of the anchors
_KINDS = (
    "positive, another example of their class in their batch: the loss learns little of the others.",
    "negative, an example of another class in their batch: the others only move together, and embeddings collapse.",
)
_ADVICE_FOR_VALIDATION = (
    " They are the labels of validation_data: for classes that are not trained, leave it out, and measure them by "
    "tfdml.callbacks.RetrievalEvaluation."
)


class BatchChecks:
    """The checks of the batches of one `fit` or `evaluate`; `error` kept a batch from its step, or is None."""

    def __init__(
        self,
        model: Any,
        *,
        counts_positives: bool = False,
        is_shuffled: bool = False,
        advice: str = "",
        validation_split: float = 0.0,
        micro_batch_size: int | None = None,
    ) -> None:
        self.model, self.is_shuffled, self.advice = model, is_shuffled, advice
        self.losses = losses_of(model.loss, model)
        self.conditions: list[Conditions] | None = None
        self.error: ValueError | None = None
        self.validation_split = validation_split
        pairings = [getattr(term, "pairing", None) for loss, _ in self.losses for term in terms(loss)]
        self.is_mixed = is_shuffled and any(pairing in (two_views, triplet_rows) for pairing in pairings)
        groups = [rows for rows, grouped in _NEIGHBORS.items() if any(pairing in grouped for pairing in pairings)]
        self.rows_of_group = math.lcm(micro_batch_size or 1, *groups)
        self._counts = [_pairing_of_rows(loss) if counts_positives else None for loss, _ in self.losses]
        self._counted: list[np.ndarray] = []
        self._counts_what_is_drawn = False
        self._has_seen_examples = False

    def of_data(self, x: Any, y: Any = None, batch_size: int | None = None) -> Any:
        """The data for Keras in place of `x`: the same, where all is known before the first step."""
        self._counts_what_is_drawn = y is None
        if hasattr(x, "element_spec"):
            return self._of_dataset(x)
        if isinstance(x, keras.utils.PyDataset):
            self._note_conditions([keras.KerasTensor((_ROWS,), dtype="int64") for _ in self.model.outputs])
            return _CheckedBatches(x, self._look_at)
        if isinstance(x, Iterator):
            return self._of_iterator(x)
        rows = _number_of_rows(x)
        if rows is not None:
            self._require_whole_groups(rows, batch_size or _KERAS_BATCH_SIZE)
        if rows is not None and y is not None:
            self._look_at_arrays(x, y, rows, batch_size or _KERAS_BATCH_SIZE)
        return x

    def count_last_rows(self, arguments: Mapping[str, Any], batch_size: int | None) -> None:
        """Count in the rows that `validation_split` takes from arrays: the last ones, in their order."""
        labels = labels_of(arguments.get("y"), self.losses, self.model)
        values, size = as_array(labels[0]), batch_size or _KERAS_BATCH_SIZE
        if values is None or len(labels) > 1:
            return
        first = math.floor(len(values) * (1 - arguments["validation_split"]))
        for start in range(first, min(len(values), first + _COUNTED_BATCHES * size), size):
            self._count([values[start : start + size]])

    def labels_of(self, y: Any) -> list[Any]:
        """The labels of each output, arrays or specs; None without labels, or for what Keras has to read."""
        labels = labels_of(y, self.losses, self.model)
        return [values if hasattr(values, "dtype") and hasattr(values, "shape") else None for values in labels]

    def begin_epoch(self) -> None:
        """Forget the batches that Keras has drawn to build the step: it draws them again."""
        if self._counts_what_is_drawn:
            self._counted.clear()

    def warn_of_few_pairs(self, data: str = "the first epoch") -> None:
        """Warn once if few anchors of a loss that compares the rows of a batch had a positive, or a negative."""
        fractions = np.mean(np.concatenate(self._counted, axis=1), axis=1) if self._counted else (1.0, 1.0)
        self._counts, self._counted = [], []
        for fraction, kind in zip(fractions, _KINDS, strict=True):
            if fraction < _FEW_PAIRS:
                warnings.warn(
                    f"{fraction:.1%} of the anchors of {data} had a {kind} Draw batches with a sampler: "
                    "tfdml.samplers.GroupSampler(classes_per_batch=8, examples_per_class=4).batches(x, labels).",
                    stacklevel=3,
                )

    def _require_whole_groups(self, rows, batch_size):
        """Raise a ValueError for arrays in whose batches neighboring rows would not stay together."""
        require(not self.is_mixed, "shuffle=True for views or triplets, whose rows it would mix", "shuffle=False")
        num_trained = math.floor(rows * (1 - self.validation_split))
        for num_rows in (num_trained, rows - num_trained):
            for size in (min(num_rows, batch_size), num_rows % batch_size):
                self._require_multiple(size, f" of {rows} examples with batch_size={batch_size}")

    def _require_multiple(self, size, data=""):
        received = f"a batch of {size} rows{data} for a loss or micro-batches of {self.rows_of_group} rows each"
        expected = f"a multiple of {self.rows_of_group}. Pass another batch_size, and leave out the last few rows"
        require(size % self.rows_of_group == 0, received, expected)

    def _of_dataset(self, dataset):
        """A `tf.data.Dataset` that checks its batches as they are drawn, if they have to be checked."""
        x, y, _ = keras.utils.unpack_x_y_sample_weight(dataset.element_spec)
        specs = keras.tree.flatten((x, y))
        if y is None or not all(hasattr(spec, "shape") and hasattr(spec, "dtype") for spec in specs):
            return dataset
        is_batched = all(spec.shape.rank != 0 for spec in keras.tree.flatten(y))
        require(is_batched, "a dataset of single examples", "one of batches: dataset.batch(32)")
        self._prepare((x, y), lambda: next(iter(dataset.take(1))))
        drawn_classes = getattr(dataset, "drawn_classes", None)  # of a sampler, whose batches have positives
        if drawn_classes is not None and self._has_conditions():
            self._check([np.repeat(drawn_classes(), 2)] * len(self.model.outputs))  # as pairs of equal rows
        checked = (self._has_conditions(), any(self._counts), self.rows_of_group > 1)
        has_to_be_seen = drawn_classes is None and any(checked)
        if not has_to_be_seen and not expects_other_pixels(self.model, x):
            return dataset
        return looked_at(dataset, self._look, self.labels_of if has_to_be_seen else lambda _: [])

    def _of_iterator(self, batches):
        """A generator of the same batches that checks each one."""
        first = next(batches, None)
        if first is None:
            return batches
        self._prepare(first)
        return _looked_at_one_by_one(itertools.chain([first], batches), self._look_at)

    def _look_at_arrays(self, x, y, num_rows, batch_size):
        labels = list(map(as_array, labels_of(y, self.losses, self.model)))
        if any(values is not None and len(values) != num_rows for values in labels):
            return  # Keras says it
        first = keras.tree.map_structure(lambda values: _first_rows(values, batch_size), x)
        self._prepare_labels(first, [None if values is None else values[:batch_size] for values in labels])
        rows = np.arange(num_rows)
        if self.is_shuffled:  # some order, so that pairs of neighbors are seen to be broken
            rows = np.random.default_rng(0).permutation(rows)
        labels = [None if values is None else values[rows] for values in labels]
        self._look(keras.tree.flatten(first), labels, count=False)
        for start in range(0, min(num_rows, _COUNTED_BATCHES * batch_size), batch_size):
            self._count([None if values is None else values[start : start + batch_size] for values in labels])

    def _prepare(self, batch, draw=None):
        """Note what the losses demand of a batch, of which arrays or specs are given."""
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        if y is not None:
            require_order(self.model, x, y)
            self._prepare_labels(x, self.labels_of(y), draw)

    def _prepare_labels(self, x, labels, draw=None):
        for loss, output in self.losses:
            if labels[output] is not None and compares_ids(loss):
                _require_no_text(labels[output])
                _require_labels_of_examples(x, labels[output])
        self._note_conditions(labels)
        if any(conditions.of_embeddings for conditions in self.conditions or ()):
            if draw is not None:
                x, y, _ = keras.utils.unpack_x_y_sample_weight(draw())
                labels = self.labels_of(y)
            self._evaluate(x, labels)

    def _note_conditions(self, labels):
        if self.conditions is None:
            by_loss = [] if self.model.run_eagerly else self.losses
            outputs = self.model.outputs
            self.conditions = [conditions_of(loss, labels[output], outputs[output]) for loss, output in by_loss]

    def _evaluate(self, x, labels):
        """Evaluate the losses with numbers, so that they raise their errors of embeddings."""
        outputs = keras.tree.flatten(self.model(x, training=False))
        for loss, output in self.losses:
            if hasattr(loss, "layers") and labels[output] is not None:
                with unchanged(loss.layers):
                    loss(as_array(labels[output]), outputs[output])

    def _has_conditions(self):
        return any(conditions.of_labels for conditions in self.conditions or ())

    def _look_at(self, batch):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
        if y is None:
            return
        if not self._has_seen_examples and multiprocessing.parent_process() is None:
            self._prepare(batch)
        self._look(keras.tree.flatten(x), list(map(as_array, labels_of(y, self.losses, self.model))))

    def _look(self, x, labels, *, count=True):
        """Check the first examples and all labels of a batch, lists of arrays; the error is also kept."""
        try:
            if not self._has_seen_examples:
                require_pixels(self.model, x)
                self._has_seen_examples = True
            self._check(labels)
            rows = next((len(values) for values in labels if values is not None), None)
            if count and rows is not None:
                self._require_multiple(rows)
        except ValueError as error:
            self.error = self.error or error
            raise
        if count and labels:
            self._count(labels)

    def _check(self, labels):
        for conditions, (_, output) in zip(self.conditions or (), self.losses if labels else (), strict=False):
            numbers = _as_ids(labels[output])
            for check in conditions.of_labels if numbers is not None else []:
                try:
                    check(numbers)
                except ValueError as error:
                    raise ValueError(f"{error}{self.advice}") from None

    def _count(self, labels):
        """Count the anchors that have a positive, and a negative, for losses over the rows of a batch."""
        for pairing, (_, output) in zip(self._counts, self.losses, strict=False):
            numbers = None if pairing is None else _as_ids(labels[output])
            if numbers is not None and len(self._counted) < _COUNTED_BATCHES:
                self._counted.append(_have_pairs(pairing, numbers))


def conditions_of(loss: Any, labels: Any, output: Any) -> Conditions:
    """The demands of a loss on the values of a batch, from one evaluation on symbolic outputs; labels may be specs."""
    if labels is None or not hasattr(loss, "update"):  # not a loss of tfdml
        return Conditions([], [])
    with noted() as conditions:
        rows = labels.shape[0] or _ROWS
        specs = [
            keras.KerasTensor((rows, *x.shape[1:]), dtype=keras.backend.standardize_dtype(x.dtype))
            for x in (labels, output)
        ]
        evaluation = _Evaluation()
        evaluation.loss = loss
        try:
            evaluation.compute_output_spec(*specs)
        except Exception:  # of any type, by a user's function; the step will raise it, or have the numbers it needs
            return Conditions([], [])
    return conditions


class _Evaluation(keras.Operation):
    loss: Any = None

    def call(self, labels: Any, embeddings: Any) -> Any:
        return self.loss(labels, embeddings)


class _CheckedBatches(keras.utils.PyDataset):
    """The batches of a `PyDataset`, each checked by a function when it is drawn."""

    def __init__(self, batches: keras.utils.PyDataset, look: Callable[[Any], None]) -> None:
        options = {name: getattr(batches, name) for name in ("workers", "use_multiprocessing", "max_queue_size")}
        super().__init__(**options)
        self.batches, self.look = batches, look

    @property
    def num_batches(self) -> int | None:
        """The number of batches of the original."""
        return self.batches.num_batches

    def __getitem__(self, number: int) -> Any:
        batch = self.batches[number]
        self.look(batch)
        return batch

    def on_epoch_begin(self) -> None:
        """As the original."""
        self.batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """As the original."""
        self.batches.on_epoch_end()


@contextlib.contextmanager
def checked_data(
    model: Any, checks: Callable[..., BatchChecks], arguments: Mapping[str, Any], *, trains: bool = True
) -> Iterator[dict[str, Any]]:
    """The arguments of `fit` or `evaluate` with data that are checked; the block raises the errors of its batches."""
    counts = trains and not model._has_counted_positives
    training_checks = checks(
        counts_positives=counts,
        is_shuffled=trains and arguments.get("shuffle", True),
        validation_split=arguments.get("validation_split", 0.0),
        micro_batch_size=model._micro_batch_size if trains else None,
    )
    validation_checks = checks(advice=_ADVICE_FOR_VALIDATION, counts_positives=counts)
    batch_size, validation = arguments.get("batch_size"), arguments.get("validation_data")
    checked = {**arguments, "x": training_checks.of_data(arguments.get("x"), arguments.get("y"), batch_size)}
    if isinstance(validation, tuple | list):
        x, y = (*validation, None)[:2]
        validation_checks.of_data(x, y, arguments.get("validation_batch_size") or batch_size)
    elif validation is not None:
        checked["validation_data"] = validation_checks.of_data(validation)
    elif counts and arguments.get("validation_split"):
        validation_checks.count_last_rows(arguments, batch_size)
    callbacks = arguments.get("callbacks")
    if trains and not isinstance(callbacks, keras.callbacks.CallbackList):
        own = [_Warnings(training_checks, validation_checks), CollapseWatch()]
        checked["callbacks"] = [*keras.tree.flatten(callbacks or []), *own]
    model._has_counted_positives = model._has_counted_positives or counts
    try:
        yield checked
    except Exception:  # TensorFlow wraps what a function of Python raises
        error = training_checks.error or validation_checks.error
        if error is None:
            raise
        raise error from None


class _Warnings(keras.callbacks.Callback):
    """Warn once, after an epoch, of few pairs in training or validation, and of a loss that is not finite."""

    def __init__(self, training: BatchChecks, validation: BatchChecks) -> None:
        super().__init__()
        self.training, self.validation, self.is_finite = training, validation, True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Count anew."""
        self.training.begin_epoch()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look at the counts of the first epoch, and at the loss of each."""
        self.training.warn_of_few_pairs()
        self.validation.warn_of_few_pairs("the validation data")
        if self.is_finite and not np.isfinite((logs or {}).get("loss", 0.0)):
            self.is_finite = False
            warnings.warn(
                f"The loss of epoch {epoch + 1} is not finite. Look for NaN in the examples and their weights, and for "
                "a learning rate that is too high; keras.callbacks.TerminateOnNaN() ends at the step.",
                stacklevel=2,
            )


def _looked_at_one_by_one(batches: Iterable[Any], look: Callable[[Any], None]) -> Iterator[Any]:
    for batch in batches:
        look(batch)
        yield batch


def _pairing_of_rows(loss):
    """The pairing of a loss, and of each loss of a sum, that compares rows by their class alone; None for others."""
    pairings = [hasattr(term, "pairing") and term.match is None and term.pairing for term in terms(loss)]
    return next((pairing for pairing in _COUNTED if {*map(id, pairings)} == {id(pairing)}), None)


def _have_pairs(pairing, ids):
    """Whether each anchor has a positive, and whether it has a negative, `(2, anchors)`."""
    anchors, references = (ids[::2], ids[1::2]) if pairing is even_against_odd else (ids, ids)
    classes, numbers = np.unique(np.concatenate([anchors, references]), return_inverse=True)
    same = np.bincount(numbers[len(anchors) :], minlength=len(classes))[numbers[: len(anchors)]]
    return np.stack([same > (pairing is all_pairs), same < len(references)])


def _require_no_text(labels):
    dtype = getattr(getattr(labels, "dtype", None), "name", "")
    advice = how_to_number("labels", dtype, getattr(labels, "shape", ()))
    require(dtype not in ("string", "object"), f"labels of dtype {dtype}", f"integer class ids. {advice.rstrip('.')}")


def _require_labels_of_examples(x, labels):
    """Raise a ValueError for labels in the shape of the examples, such as the positives of (anchor, positive)."""
    shapes = [tuple(getattr(values, "shape", ())) for values in (keras.tree.flatten(x)[0], labels)]
    are_examples = len(shapes[0]) > 1 and shapes[0][1:] not in ((), (1,)) and shapes[0][1:] == shapes[1][1:]
    require(
        not are_examples,
        f"labels of shape {shapes[1]} for examples of shape {shapes[0]}, which Keras reads as (examples, labels) or "
        "(examples, labels, weights)",
        "one class id per example. Batches of (anchor, positive, negative) become examples in rows 3k, 3k + 1 and "
        "3k + 2, with any labels, for the pairing tfdml.pairs.triplet_rows of the loss; (anchor, positive) rows 2k and "
        "2k + 1, for tfdml.pairs.two_views",
    )


def _number_of_rows(x):
    """The number of rows of arrays; None for anything else: Keras reads or refuses it."""
    shape = getattr(next(iter(keras.tree.flatten(x)), None), "shape", None)
    return int(shape[0]) if shape is not None and len(shape) and shape[0] is not None else None


def _first_rows(values, number):
    try:
        return values[:number]
    except (IndexError, KeyError, TypeError, ValueError):  # sparse tensors
        return values


def _as_ids(labels):
    labels = as_array(labels)
    if labels is None or labels.dtype.kind not in "iu" or labels.ndim == 0 or labels.ndim > 2:
        return None
    return labels.reshape(-1) if labels.ndim == 1 or labels.shape[1] == 1 else None
