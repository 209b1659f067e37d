"""The base class of losses over class proxies, and classes of several proxies."""

import inspect
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from tfdml._core.backends import ops
from tfdml._core.checks import require
from tfdml.layers.proxies import Proxies
from tfdml.losses.base import PairLoss
from tfdml.pairs import Pairs
from tfdml.pairs.base import Tensor


def by_class(matrix: Tensor, per_class: int) -> Tensor:
    """The columns of each class: `(A, R)` as `(A, C, per_class)`."""
    references = matrix.shape[1]
    require(
        references is None or references % per_class == 0,
        f"{references} references with per_class={per_class}",
        "a multiple of per_class: the references of a class are adjacent",
    )
    return ops.reshape(matrix, (ops.shape(matrix)[0], -1, per_class))


def over_classes(pairs: Pairs, per_class: int) -> Pairs:
    """The weights of anchors and classes, `(A, C)`: the largest weight of the centers of each class."""
    positive, negative = (
        ops.amax(by_class(weights, per_class), axis=-1) for weights in (pairs.positive, pairs.negative)
    )
    return pairs._replace(positive=positive, negative=negative)


class ProxyLoss(PairLoss):
    """Base class: a loss over the proxies of `classes`, or another pairing; its function may take `per_class`."""

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        classes: int | ArrayLike | None = None,
        per_class: int = 1,
        **options: Any,
    ) -> None:
        require(
            (classes is None) == ("pairing" in options),
            f"classes={classes!r} and pairing={options.get('pairing')}",
            "one of them: classes=, the number of classes or their ids, or pairing=",
        )
        for name in (name for name in inspect.signature(Proxies).parameters if name in options):
            raise TypeError(
                f"Received {name}={options[name]!r} for {type(self).__name__}, expected it in the proxies: "
                f"{type(self).__name__}(pairing=tfdml.layers.Proxies(classes, {name}={options[name]!r}))."
            )
        if classes is not None:
            options["pairing"] = Proxies(classes, per_class=per_class)
        if "per_class" in inspect.signature(function).parameters:
            options["per_class"] = per_class
        super().__init__(function, **options)

    @property
    def proxies(self) -> Proxies:
        """The proxies, which `EmbeddingModel` trains and saves; an AttributeError if the pairing has none."""
        if not isinstance(self.pairing, Proxies):
            raise AttributeError(f"Received pairing={self.pairing!r}, expected proxies. Make the loss with classes=.")
        return self.pairing
