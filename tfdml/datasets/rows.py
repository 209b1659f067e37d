"""Placeholder until the loader of rows arrives."""

import keras
import numpy as np

from tfdml.datasets import streams


class RowLoader:
    def __init__(self, data, load, labels, augment=None, on_error="error", workers=None):
        self.load, self.labels, self.augment = load, labels, augment
        if not streams.is_source(data):
            from tfdml._core.optional import has_tensorflow

            has_tensorflow() and streams.arrays(data, len(labels))
            data = keras.tree.map_structure(lambda a: a if isinstance(a, np.memmap) else np.asarray(a), data)
        self.data = data

    def batch(self, rows, seeds=None):
        seeds = [None] * len(rows) if seeds is None else seeds
        if streams.is_source(self.data) or self.load or self.augment:
            examples = [self._example(*one) for one in zip(rows, seeds, strict=True)]
            return keras.tree.map_structure(lambda *arrays: np.stack(arrays), *examples), self.labels[rows]
        return keras.tree.map_structure(lambda array: array[rows], self.data), self.labels[rows]

    def _example(self, row, seed):
        try:
            is_source = streams.is_source(self.data)
            example = self.data[row] if is_source else keras.tree.map_structure(lambda array: array[row], self.data)
            example = example if self.load is None else self.load(example)
            example = example if self.augment is None else self.augment(example, seed)
        except Exception as error:
            raise ValueError(
                f"Received row {row}, which cannot be loaded ({error}). Repair it or leave it out."
            ) from error
        return keras.tree.map_structure(np.asarray, example)
