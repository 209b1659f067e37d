"""Ensembles of learners that share a network: one embedding, with the learners side by side in its columns."""

from collections.abc import Callable, Sequence

import keras
from keras import KerasTensor, layers

from tfdml._core.checks import require, require_whole

_POOLINGS = {3: layers.GlobalAveragePooling1D, 4: layers.GlobalAveragePooling2D}


def ensemble(
    features: KerasTensor | Sequence[KerasTensor], *, dims: Sequence[int], shares: Sequence[float] | None = None
) -> KerasTensor:
    """The concatenated embeddings of several learners, each a dense layer of its own.

    [sqrt(share_1) u_1, ..., sqrt(share_M) u_M],  u_m = W_m f_m + b_m scaled to norm 1

    Its dot product, and its cosine, is the mean similarity of the learners with the weights share_m.

    See also: `attention_branches` for features of several learners; `tfdml.losses.BoostedLoss`, `CascadeLoss`,
    `DivergenceLoss`.

    Example:

        >>> features = keras.Input((4,))
        >>> model = tfdml.models.EmbeddingModel(features, tfdml.models.ensemble(features, dims=(2, 3)))
        >>> x = np.asarray(model(np.ones((1, 4))), float)
        >>> x.shape, round(float(np.sum(x[0, :2] ** 2)), 4)  # two learners, each with half of the similarity
        ((1, 5), 0.5)

    Args:
        features: what all learners see, or a sequence with the features of each, such as features of growing depth in a
            cascade. Vectors, tokens or feature maps; a mean over their places reduces the last two.
        dims: size of the embedding of each learner, as in the loss.
        shares: weight of each learner in the similarity, above 0; the model divides them by their sum. None for equal
            ones.

    Returns:
        `(batch, sum of dims)` Keras tensor of unit vectors, float32.
    """
    learners = len(dims)
    for dim in dims:
        require_whole("dims", dim, 1)
    seen = [features] * learners if isinstance(features, KerasTensor) else list(features)
    require(len(seen) == learners, f"features of {len(seen)} learners with dims={tuple(dims)}", "features for each")
    weights = [1.0] * learners if shares is None else list(shares)
    require(len(weights) == learners, f"shares={shares} with dims={tuple(dims)}", "a share for each")
    require(min(weights) > 0, f"shares={shares}", "numbers above 0")
    learned = [_learner(x, dim, w / sum(weights)) for x, dim, w in zip(seen, dims, weights, strict=True)]
    return layers.Concatenate(dtype="float32")(learned) if learners > 1 else learned[0]


def attention_branches(
    features: KerasTensor, trunk: Callable[[KerasTensor], KerasTensor], *, learners: int
) -> list[KerasTensor]:
    """Features of several learners, each with an attention mask of its own and all with the same network after it.

    trunk(features * A_m(features)),  m = 1, ..., learners

    A_m is two convolutions of 1 x 1, the second with a sigmoid: a weight in (0, 1) for every place and channel.

    Example:

        >>> features = keras.Input((6, 6, 8))
        >>> branches = tfdml.models.attention_branches(features, keras.layers.GlobalAveragePooling2D(), learners=2)
        >>> [branch.shape for branch in branches]
        [(None, 8), (None, 8)]

    Args:
        features: `(batch, height, width, channels)` feature maps of the lower part of a network.
        trunk: the rest of the network, a Keras layer or model, whose weights all learners share.

    Source: Kim, Goyal, Chawla, Lee, Kwon, Attention-based Ensemble for Deep Metric Learning, ECCV 2018. There A_m also
    has the layers of the next block of its network, GoogLeNet.
    """
    require_whole("learners", learners, 1)
    require(len(features.shape) == 4, f"features of shape {tuple(features.shape)}", "(batch, height, width, channels)")
    require(isinstance(trunk, keras.layers.Layer), f"trunk={trunk!r}", "a Keras layer or model: its weights are shared")
    return [trunk(layers.Multiply()([features, _attention(features)])) for _ in range(learners)]


def _attention(features):
    channels = features.shape[-1]
    return layers.Conv2D(channels, 1, activation="sigmoid")(layers.Conv2D(channels, 1, activation="relu")(features))


def _learner(features, dim, share):
    """Embeddings of one learner, of norm sqrt(share)."""
    rank = len(features.shape)
    require(rank in (2, *_POOLINGS), f"features of shape {tuple(features.shape)}", "vectors, tokens or feature maps")
    x = layers.Dense(dim)(features if rank == 2 else _POOLINGS[rank]()(features))
    return layers.Rescaling(share**0.5, dtype="float32")(layers.UnitNormalization(dtype="float32")(x))
