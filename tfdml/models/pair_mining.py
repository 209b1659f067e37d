"""Training of a model of pairs on the pairs that a miner chooses among the outputs of its branch."""

import contextlib
import math
from typing import Any

import keras
from keras import ops

from tfdml._core.checks import require, require_fraction, require_miner_or_none, require_whole
from tfdml._core.serialization import serializable
from tfdml.layers.base import LossLayer, unchanged
from tfdml.models.embedding_model import EmbeddingModel
from tfdml.models.pair_model import PairModel
from tfdml.pairs import all_pairs, euclidean, normalized
from tfdml.pairs.base import Miner, Pairs, Tensor


@serializable
class PairMining(EmbeddingModel):
    """Trains a siamese `PairModel` on mined pairs: n images pass the branch once, and k pairs of them the decision.

    The outputs of the branch, flattened and scaled to norm 1, are compared as embeddings. A miner keeps some of their
    pairs, and the hardest of these go to the decision: matching pairs that are far apart, and others that are near. The
    loss is the mean over these pairs, weighted as the miner weights them. Its gradient trains decision and branch; none
    flows through the choice. Batches come from any sampler, images and labels.

    The layers belong to `model`: use, export and save that one after the training.

    See also: `tfdml.samplers.input_pairs` for random pairs, and for models without a single branch.

    Example:

        >>> x = keras.Input((1,))
        >>> branch = keras.Model(x, keras.layers.Identity()(x))
        >>> decision = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros")])
        >>> model = tfdml.models.PairModel(decision, branch)
        >>> trainer = tfdml.models.PairMining(model, miner=tfdml.miners.HardestNegatives(), pairs_per_batch=4)
        >>> trainer.compile("adam", loss=tfdml.losses.PairLogisticLoss())
        >>> images, labels = np.array([[1.0], [2.0], [-1.0], [-2.0]]), np.array([0, 0, 1, 1])  # a batch of any sampler
        >>> round(float(trainer.train_on_batch(images, labels)), 4)  # log 2: all scores are 0 at the start
        0.6931

    Args:
        model: a `PairModel` of one branch, whose score is one number per pair.
        miner: a function `Pairs -> Pairs`, such as one of `tfdml.miners`; None: all pairs of a batch are candidates.
        pairs_per_batch: k, the pairs that the decision sees, each at most once. Missing ones have weight 0.
        positive_fraction: fraction of them that match, in (0, 1].

    Raises:
        ValueError: a model without a single branch, or with maps of scores; in training, weights of samples, or more
            pairs of a kind than n x n.
    """

    def __init__(
        self,
        model: PairModel,
        *,
        miner: Miner | None = None,
        pairs_per_batch: int = 64,
        positive_fraction: float = 0.5,
        name: str | None = None,
    ) -> None:
        _require_one_branch(model)
        require_miner_or_none("miner", miner)
        require_whole("pairs_per_batch", pairs_per_batch, 1)
        require_fraction(positive_fraction=positive_fraction)
        branch = model.branches[0]
        super().__init__(inputs=branch.input, outputs=branch.output, name=name)
        self.pair_model, self.miner = model, miner
        self.pairs_per_batch, self.positive_fraction = pairs_per_batch, positive_fraction

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """The loss of the scores of the mined pairs; only training changes the state of a miner."""
        require(sample_weight is None, "weights of samples", "none: a miner weights pairs")
        embeddings = ops.reshape(y_pred, (-1, math.prod(y_pred.shape[1:])))
        miner_layers = [self.miner] if isinstance(self.miner, LossLayer) else []
        with contextlib.nullcontext() if training else unchanged(miner_layers):
            first, second, weights, match = self._mined(all_pairs(y, embeddings))
        scores = self._scores(ops.take(y_pred, first, axis=0), ops.take(y_pred, second, axis=0), training)
        return super().compute_loss(x, match, scores, weights, training)

    def get_config(self) -> dict[str, Any]:
        """The model of pairs, the miner and the numbers."""
        return {
            "name": self.name,
            "model": keras.saving.serialize_keras_object(self.pair_model),
            "miner": keras.saving.serialize_keras_object(self.miner),
            "pairs_per_batch": self.pairs_per_batch,
            "positive_fraction": self.positive_fraction,
            **self._tuning_config(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "PairMining":
        """The same training of an equal model."""
        parts = {key: keras.saving.deserialize_keras_object(config[key], custom_objects) for key in ("model", "miner")}
        return super().from_config({**config, **parts}, custom_objects)

    def _mined(self, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows of both images, weights with the mean 1, and labels 1 and -1 of the hardest pairs, `(k,)` each."""
        pairs = normalized(pairs)
        pairs = pairs if self.miner is None else self.miner(pairs)
        d = ops.stop_gradient(euclidean(pairs))
        num_positive = round(self.positive_fraction * self.pairs_per_batch)
        counts = num_positive, self.pairs_per_batch - num_positive
        chosen = [
            _hardest(weights, hardness, count)
            for weights, hardness, count in zip((pairs.positive, pairs.negative), (d, -d), counts, strict=True)
        ]
        first, second, weights = (ops.concatenate(values) for values in zip(*chosen, strict=True))
        match = ops.concatenate([ops.ones(counts[:1], "int32"), -ops.ones(counts[1:], "int32")])
        total = ops.sum(weights)
        return first, second, weights * self.pairs_per_batch / ops.where(total > 0, total, 1.0), match

    def _scores(self, first, second, training):
        """Scores of pairs of outputs of the branch, `(k,)`."""
        decision = self.pair_model.decision
        pair = [first, second] if len(decision.inputs) == 2 else ops.concatenate([first, second], axis=-1)
        return ops.squeeze(ops.cast(decision(pair, training=training), "float32"), axis=-1)


def _require_one_branch(model):
    require(isinstance(model, PairModel), f"model={model!r}", "a tfdml.models.PairModel")
    names = [branch.name for branch in dict.fromkeys(model.branches)]
    expected = "a siamese one, of one branch. Choose pairs for others by tfdml.samplers.input_pairs"
    require(names == ["branch"], f"a model of {len(names)} branches", expected)
    scores, features = tuple(model.output.shape), tuple(model.branches[0].output.shape)
    require(len(scores) == 1, f"a model of scores {scores}", "one score per pair, (batch,)")
    require(None not in features[1:], f"a branch of outputs {features}", "a fixed shape: give its input fixed sizes")


def _hardest(weights: Tensor, hardness: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and weights of the hardest pairs, each once; weight 0 where there are fewer than `count`."""
    rows = ops.arange(ops.shape(weights)[0])
    once = rows[:, None] < rows
    weights = ops.where(once, ops.maximum(weights, ops.transpose(weights)), 0.0)
    hardness = ops.where(ops.isnan(hardness), float("inf"), hardness)  # so that divergence is seen
    flat = ops.reshape(ops.where(weights > 0, hardness, -float("inf")), (-1,))
    fits = flat.shape[0] is None or count <= flat.shape[0]
    require(fits, f"{count} pairs of a kind from a batch of {weights.shape[0]} rows", "fewer. Lower pairs_per_batch")
    _, chosen = ops.top_k(flat, count)
    columns = ops.shape(weights)[1]
    return chosen // columns, chosen % columns, ops.take(ops.reshape(weights, (-1,)), chosen)
