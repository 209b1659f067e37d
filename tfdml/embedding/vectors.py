"""Arrays of embeddings that know their model."""

from typing import Any

import numpy as np


class Vectors(np.ndarray):
    """Embeddings with the `fingerprint` of their model; indexes compare it without being asked; None: unknown.

    Rows, copies, and stacks of embeddings of one model keep it. Results of arithmetic are plain arrays, since they are
    no longer embeddings of the model; so are other columns, and stacks of several models.
    """

    fingerprint: str | None = None

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, Vectors) and self.shape[-1:] == source.shape[-1:]:
            self.fingerprint = source.fingerprint

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        targets = {} if out is None else {"out": tuple(map(_plain, out))}
        return getattr(ufunc, method)(*map(_plain, inputs), **targets, **options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        result = super().__array_function__(function, types, arguments, options)
        if function is not np.concatenate:
            return _plain(result) if function is np.dot else result
        models = {getattr(array, "fingerprint", None) for array in arguments[0]}
        is_stack = all(np.shape(array)[-1:] == result.shape[-1:] for array in arguments[0])
        return with_model(result, models.pop()) if is_stack and len(models) == 1 else result

    def __reduce__(self) -> Any:
        return with_model, (np.asarray(self), self.fingerprint)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def with_model(embeddings: np.ndarray, fingerprint: str | None) -> Vectors:
    """The same embeddings `(n, dim)`, without a copy, with the fingerprint of their model."""
    vectors = embeddings.view(Vectors)
    vectors.fingerprint = fingerprint
    return vectors


def _plain(array):
    return np.asarray(array) if isinstance(array, Vectors) else array
