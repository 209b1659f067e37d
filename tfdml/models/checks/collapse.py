"""Watch the spread of the embeddings in training: a network that maps every example to one point learns no more."""

import warnings
from typing import Any

import keras
from keras import ops

from tfdml.models.checks.outputs import compares_ids, labels_of, losses_of, terms
from tfdml.pairs import triplet_rows, two_views

_SAME = 3e-4  # of the largest number: float32 tells no smaller Euclidean distances apart, which it takes from squares
_NEAR = 0.02  # at the end of a run, if the embeddings were further apart before
_ADVICE = (
    "the network has collapsed, and learns no more. (A triplet loss then equals its margin.) Begin again with a lower "
    "learning rate, with semi-hard in place of the hardest negatives, or with more classes in each batch."
)


class CollapseWatch(keras.callbacks.Callback):
    """Warn once in a `fit` whose embeddings become all the same.

    It looks at the numbers that `count_collapsed` keeps: after each epoch whether they are the same but for rounding,
    at the end whether they have come near to each other.
    """

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Note the first step."""
        self.has_warned = False
        self.num_steps = 0  # of the last epoch

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note the first step of the epoch."""
        self.begin = self.model.steps

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Warn of embeddings that are the same."""
        self.num_steps = self.model.steps - self.begin
        same, _ = self.model._collapsed_steps
        if not self.has_warned and same >= max(2, self.num_steps / 2):
            self._warn(f"of the last {same:,} batches of epoch {epoch + 1} were all the same, but for rounding", same)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Warn of embeddings that have come near to each other."""
        _, near = self.model._collapsed_steps
        is_late = near < self.model.steps
        if self.num_steps and not self.has_warned and is_late and near >= max(2, self.num_steps / 2):
            self._warn(f"of the last {near:,} batches differed by less than {100 * _NEAR:g}% of their size", near)

    def _warn(self, what, number):
        self.has_warned = True
        inputs = " Look whether the inputs reach the output, and in what range they are."
        is_early = number >= self.model.steps
        warnings.warn(f"The embeddings {what}: {_ADVICE}{inputs if is_early else ''}", stacklevel=2)


def count_collapsed(earlier: Any, model: Any, labels: Any, outputs: list[Any]) -> Any:
    """Numbers of consecutive batches up to this one whose embeddings are all the same, and near to each other, `(2,)`.

    A batch of one class may be of one example, and does not change the numbers `earlier` of the batches before it.
    """
    losses = losses_of(model.loss, model)
    by_output = labels_of(labels, losses, model)
    counts = earlier
    for output, ignores_labels in {
        output: _ignores_labels(loss) for loss, output in losses if compares_ids(loss)
    }.items():
        is_told = _have_several(None if ignores_labels else by_output[output])
        is_below = ops.cast(_spread(outputs[output]) <= ops.array([_SAME, _NEAR], "float32"), counts.dtype)
        counts = ops.where(is_told, (earlier + 1) * is_below, counts)
    return counts


def _ignores_labels(loss):
    return any(term.pairing in (two_views, triplet_rows) for term in terms(loss))


def _have_several(labels):
    """Whether a batch has several classes, so that its examples differ; a batch without labels has."""
    return True if labels is None else ops.any(ops.not_equal(labels, labels[:1]))


def _spread(embeddings):
    """Largest distance of a number from the first row's, as a fraction of the largest number; 0 of zeros."""
    x = ops.stop_gradient(ops.cast(embeddings, "float32"))
    return ops.max(ops.abs(x - x[:1])) / ops.maximum(ops.max(ops.abs(x)), 1e-30)
