"""Batches from a list of pairs or triplets, for data without classes."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import keras
import numpy as np
import numpy.typing as npt

from tfdml._core.checks import as_ids, is_labeled_set, require
from tfdml.pairs import Pairs, even_against_odd, labeled_pairs, triplet_rows
from tfdml.samplers.base import Sampler
from tfdml.samplers.streams.batch_source import zipped
from tfdml.samplers.streams.index_batches import Shard

_SHARD = [field.name for field in fields(Shard)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ListSampler(Sampler):
    """Entries of a list: pairs with a label for similar or dissimilar, pairs that are all similar, or triplets.

    Rows 2k and 2k + 1 of a batch are a pair, rows 3k, 3k + 1 and 3k + 2 an anchor, its positive and its negative. Pass
    `pairing=sampler.pairing` to the loss. `batches(data)` takes the examples alone: each row has the label of its
    entry, or the index of the entry in a list without labels.

    See also: `PairSampler` for pairs of examples with classes.

    Example:

        >>> pairs = np.array([[0, 4], [0, 3], [2, 3]])  # row numbers of the images
        >>> entries = tfdml.samplers.UniformSampler(batch_size=2, seed=0)
        >>> sampler = tfdml.samplers.ListSampler(entries=pairs, labels=[1, 0, 1], sampler=entries)
        >>> examples, similar = next(iter(sampler.batches(np.arange(5.0))))
        >>> examples.numpy().tolist(), similar.numpy().tolist()
        ([0.0, 3.0, 0.0, 4.0], [0, 0, 1, 1])

    Args:
        entries: `(n, 2)` or `(n, 3)` row numbers of examples: pairs, or triplets (anchor, positive, negative).
        labels: `(n,)`, 1 for a similar pair, 0 for a dissimilar one. None for triplets, and for pairs that are all
            similar: their `pairing` is `tfdml.pairs.even_against_odd`, with the other pairs of a batch as negatives.
        sampler: the sampler that draws entries, by their labels: `UniformSampler(batch_size=32)`, or
            `GroupSampler(classes_per_batch=2, examples_per_class=16)` for as many similar as dissimilar pairs.
    """

    entries: Any = field(repr=False)
    labels: Any = field(default=None, repr=False)
    sampler: Sampler

    def __post_init__(self):
        object.__setattr__(self, "entries", _as_entries(self.entries))
        require(isinstance(self.sampler, Sampler), f"sampler={self.sampler!r}", "one of tfdml.samplers")
        if self.labels is not None:
            require(not self.is_triplets, "labels for triplets", "labels=None: a triplet says what is similar")
            labels = as_ids(self.labels, "labels", len(self.entries))
            wrong = labels[(labels != 0) & (labels != 1)]
            require(not wrong.size, f"label {wrong[:1]} of a pair", "1 for similar or 0 for dissimilar")
            object.__setattr__(self, "labels", labels)

    @property
    def is_triplets(self) -> bool:
        """Whether entries are triplets, not pairs."""
        return self.entries.shape[1] == 3

    @property
    def batch_size(self) -> int:
        """Rows in a batch: two for each pair, three for each triplet."""
        return self.sampler.batch_size * self.entries.shape[1]

    @property
    def seed(self) -> int:
        """The seed of the sampler that draws entries."""
        return self.sampler.seed  # type: ignore[attr-defined]

    @property
    def pairing(self) -> Callable[..., Pairs]:  # type: ignore[override]
        """The function of `tfdml.pairs` for these entries."""
        if self.is_triplets:
            return triplet_rows
        return even_against_odd if self.labels is None else labeled_pairs

    @property
    def entry_labels(self) -> np.ndarray:
        """`(n,)` int64, the label of each entry, or its index in a list without labels."""
        return np.arange(len(self.entries)) if self.labels is None else self.labels

    def prepare(self, labels: npt.ArrayLike) -> tuple[np.ndarray, Any]:
        """The entries, and what draws them; of `labels`, which may be any integers, only their number matters."""
        examples = len(as_ids(labels, "labels"))
        last = self.entries.max()
        require(last < examples, f"entries up to row {last} for {examples} examples", f"rows 0 to {examples - 1}")
        return self.entries, self.sampler.prepare(self.entry_labels)

    def block_steps(self, table: tuple[np.ndarray, Any]) -> int:
        """The block of the sampler that draws entries."""
        return self.sampler.block_steps(table[1])

    def draw(self, table: tuple[np.ndarray, Any], steps: np.ndarray) -> np.ndarray:
        """The batches of `steps` as row numbers `(block, batch)`."""
        entries, inner = table
        return entries[self.sampler.draw(inner, steps)].reshape(-1, self.batch_size)

    def batches(self, data: Any, labels: None = None, *, on_error: str = "error", **options: Any) -> Any:  # type: ignore[override]
        """Infinite stream of batches of examples and labels of their entries, with the options of `Sampler.batches`.

        The sampler ignores labels of a labeled set. `on_error` is "error": no other example can replace one of an
        entry.
        """
        require(labels is None, "labels of examples", "none, since entries have their own: ListSampler(labels=...)")
        require(on_error == "error", f"on_error={on_error!r}", "'error'. Leave out entries that cannot be loaded")
        if is_labeled_set(data):
            data = replace(cast(Any, data), labels=np.zeros(len(data), np.int64), class_names=("",))
        length = len(keras.tree.flatten(data)[0] if isinstance(data, tuple | dict) else data)
        examples = super().batches(data, None if is_labeled_set(data) else np.zeros(length, np.int64), **options)
        shard = {name: options[name] for name in _SHARD if name in options}
        labels_of_rows = np.repeat(self.entry_labels, self.entries.shape[1])
        in_order = replace(self, entries=np.arange(len(labels_of_rows)).reshape(self.entries.shape))
        entry_labels = Sampler.batches(in_order, labels_of_rows, np.zeros(len(labels_of_rows), np.int64), **shard)
        return zipped(lambda batch, labels: (batch[0], labels[0]), examples, entry_labels)


def _as_entries(entries):
    """Entries as int64 `(n, 2)` or `(n, 3)`."""
    entries = np.asarray(entries)
    require(
        entries.ndim == 2 and entries.shape[1] in (2, 3) and len(entries) > 0,
        f"entries of shape {entries.shape}",
        "(n, 2) for pairs or (n, 3) for triplets of row numbers. Pass labels of pairs as labels=entries[:, 2]",
    )
    rows = as_ids(entries.reshape(-1), "entries").reshape(entries.shape)
    require(rows.min() >= 0, f"entries down to {rows.min()}", "row numbers of examples, 0 or more")
    return rows
