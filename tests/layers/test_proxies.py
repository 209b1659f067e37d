"""Proxies: learned references of the classes, and the losses over them."""

import json

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, compiled, gradient, numbers
from tests.layers.fitted import LABELS, X, embedding_model, trained
from tests.losses import loops
from tfdml import layers, losses, models

pytestmark = pytest.mark.backends

OVER_PROXIES = {
    losses.NormalizedSoftmaxLoss: loops.normalized_softmax,
    losses.CosFaceLoss: loops.cosface,
    losses.ArcFaceLoss: loops.arcface,
    losses.SphereFaceLoss: loops.sphereface,
    losses.MagFaceLoss: loops.magface,
    losses.LargeMarginSoftmaxLoss: loops.large_margin_softmax,
    losses.ProxyNCALoss: loops.proxy_nca,
    losses.P2SGradLoss: loops.p2s_grad,
    losses.CenterLoss: loops.center_loss,
}


def against_proxies(by_loops, vectors, per_class=1):
    """The oracle of one value per anchor: each anchor is a batch with all proxies, and its value is the first."""
    ids = np.repeat(np.arange(len(vectors) // per_class), per_class)
    batches = [(np.r_[label, ids], np.r_[x[None], vectors].astype(float)) for label, x in zip(LABELS, X, strict=True)]
    return np.array([by_loops(*batch)[0] for batch in batches])


def proxy_anchor_by_loops(vectors, margin=0.1, alpha=32.0):
    """Equation 4 of the paper, with every proxy in the second mean and those with examples in the first."""
    pull, push = [], []
    for label, proxy in enumerate(vectors.astype(float)):
        s = np.array([loops.cosine_between(x.astype(float), proxy) for x in X])
        if label in LABELS:
            pull.append(np.log(1 + np.exp(-alpha * (s[label == LABELS] - margin)).sum()))
        push.append(np.log(1 + np.exp(alpha * (s[label != LABELS] + margin)).sum()))
    return np.mean(pull) + np.mean(push)


def test_every_row_is_compared_with_every_proxy_and_its_own_are_positive():
    proxies = layers.Proxies(4, per_class=2)
    pairs = proxies(LABELS, X)
    assert proxies.vectors.shape == (8, 4)
    np.testing.assert_array_equal(numbers(pairs.reference_labels), [0, 0, 1, 1, 2, 2, 3, 3])
    expected = LABELS[:, None] == np.arange(8) // 2
    np.testing.assert_array_equal(numbers(pairs.positive), expected)
    np.testing.assert_array_equal(numbers(pairs.negative), ~expected)
    np.testing.assert_array_equal(numbers(pairs.references), numbers(proxies.vectors))


@pytest.mark.everywhere
@pytest.mark.parametrize("make", OVER_PROXIES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("per_class", [1, 2])
def test_values_over_proxies_are_those_of_the_equation(make, per_class):
    loss = make(classes=4, per_class=per_class)
    values = numbers(loss.call(LABELS, X))
    expected = against_proxies(OVER_PROXIES[make], numbers(loss.proxies.vectors), per_class)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


def test_the_weight_of_the_only_positive_multiplies_its_loss_and_none_is_no_loss():
    loss = losses.ArcFaceLoss(classes=4, scale=8.0)
    pairs, weights = loss.pair(LABELS, X), np.array([0.3, 2.5, 0, 1, 0.7, 3, 0, 1], "float32")
    weighted = loss.on_pairs(pairs.scale(positive=weights[:, None]))
    np.testing.assert_allclose(numbers(weighted), weights * numbers(loss.on_pairs(pairs)), rtol=1e-5)


def test_the_proxy_anchor_loss_over_proxies_is_equation_4():
    loss = losses.ProxyAnchorLoss(classes=4)  # class 2 has no examples
    values = numbers(loss.call(LABELS, X))
    np.testing.assert_allclose(values, [proxy_anchor_by_loops(numbers(loss.proxies.vectors))] * 8, rtol=1e-5)


def soft_triple_by_loops(vectors, centers, margin=0.01, scale=20.0, temperature=0.1, nu=0.2):
    """The loss of each example against classes of several centers, and the distances between the centers."""
    w = loops.unit(vectors.astype(float)).reshape(-1, centers, vectors.shape[1])
    spread = [np.linalg.norm(c[k] - c[m]) / 2 for c in w for k in range(centers) for m in range(k + 1, centers)]
    values = []
    for label, x in zip(LABELS, loops.unit(X.astype(float)), strict=True):
        s = [np.average(c @ x, weights=np.exp(c @ x / temperature)) for c in w]
        logits = scale * (np.array(s) - margin * (np.arange(len(w)) == label))
        values.append(loops.log_sum_exp(logits) - logits[label])
    return np.array(values) + nu * np.mean(spread)


def test_the_soft_triple_loss_over_proxies_is_its_equation():
    loss = losses.SoftTripleLoss(classes=4, per_class=3)
    values = numbers(loss.call(LABELS, X))
    np.testing.assert_allclose(values, soft_triple_by_loops(numbers(loss.proxies.vectors), 3), rtol=1e-5)
    loss.proxies.vectors.assign(np.repeat(np.eye(4), 3, axis=0))  # centers that have merged
    slopes = gradient(lambda v: loss.call(LABELS, v), X)
    assert np.isfinite(slopes).all()


def test_the_sub_center_arcface_loss_takes_the_nearest_center_of_each_class():
    loss = losses.SubCenterArcFaceLoss(classes=4, per_class=3, scale=8.0)
    found = numbers(loss.call(LABELS, X))
    w = numbers(loss.proxies.vectors).reshape(4, 3, 4)
    for label, x, value in zip(LABELS, X, found, strict=True):
        nearest = [max(of_class, key=lambda c: loops.cosine_between(c, x)) for of_class in w]
        batch = np.r_[label, np.arange(4)], np.r_[x[None], nearest].astype(float)
        np.testing.assert_allclose(value, loops.arcface(*batch, scale=8.0)[0], rtol=1e-5)


def test_references_that_do_not_divide_by_per_class_are_refused():
    loss = losses.SoftTripleLoss(pairing=layers.Proxies(4, per_class=2), per_class=3)
    with pytest.raises(ValueError, match="Received 8 references with per_class=3, expected a multiple of per_class"):
        loss(LABELS, X)


def test_any_loss_of_pairs_runs_on_proxies():
    proxies = layers.Proxies(4)
    value = losses.NTXentLoss(pairing=proxies, temperature=1 / 64).call(LABELS, X)
    expected = losses.NormalizedSoftmaxLoss(pairing=proxies).call(LABELS, X)
    np.testing.assert_allclose(numbers(value), numbers(expected), rtol=1e-6)
    assert np.isfinite(numbers(losses.ContrastiveLoss(pairing=proxies)(LABELS, X)))


ON_A_CIRCLE = np.linspace(0, np.pi, 361)


def values_by_angle(loss, angles=ON_A_CIRCLE):
    """The loss of embeddings at these angles to their proxy, with the other proxy at a right angle to both."""
    x = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1).astype("float32")
    labels = np.zeros(len(x), "int32")
    loss.proxies.build((None,), x.shape)
    loss.proxies.vectors.assign([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return numbers(loss.call(labels, x)), gradient(lambda v: loss.call(labels, v), x)


@pytest.mark.parametrize("make", [*OVER_PROXIES, losses.ProxyAnchorLoss], ids=lambda make: make.__name__)
def test_values_and_gradients_are_finite_from_angle_0_to_pi(make):
    for angles in (ON_A_CIRCLE, ON_A_CIRCLE[[0, -1]]):  # few rows are normalized without rounding: cosines of 1 and -1
        values, slopes = values_by_angle(make(classes=2), angles)
        assert np.isfinite(values).all()
        assert np.isfinite(slopes).all()


WHOLE, ANGLES = [1, 2, 3, 4], [0.5, 1, 1.5]
MARGINS = {losses.ArcFaceLoss: ANGLES, losses.SphereFaceLoss: WHOLE, losses.LargeMarginSoftmaxLoss: WHOLE}
GROWING = [(make, {"margin": margin}) for make in OVER_PROXIES for margin in MARGINS.get(make, [])]
GROWING += [(make, {}) for make in OVER_PROXIES if make not in MARGINS]


@pytest.mark.parametrize(("make", "options"), GROWING, ids=lambda part: getattr(part, "__name__", None))
def test_the_loss_grows_with_the_angle_to_the_proxy(make, options):
    scale = {} if make in (losses.P2SGradLoss, losses.CenterLoss) else {"scale": 4.0}
    values, _ = values_by_angle(make(classes=2, **scale, **options))
    assert (np.diff(values) > -1e-6).all()
    assert values[-1] > values[0] + 1


@pytest.mark.slow
def test_training_lowers_the_loss_and_evaluation_leaves_proxies_as_they_are():
    model = embedding_model(losses.CosFaceLoss(classes=4, scale=8.0))
    before = model.evaluate(X, LABELS, verbose=0)
    vectors = numbers(trained(model, 20).loss.proxies.vectors)
    assert model.evaluate(X, LABELS, verbose=0) < before / 2
    np.testing.assert_array_equal(numbers(model.loss.proxies.vectors), vectors)


@pytest.mark.slow
def test_proxies_have_a_learning_rate_by_their_name():
    loss = losses.CosFaceLoss(pairing=layers.Proxies(4, name="proxies"))
    model = embedding_model(loss, learning_rate_multipliers={"proxies": 0.0})
    before = numbers(loss.proxies.vectors)
    np.testing.assert_array_equal(numbers(trained(model, 1).loss.proxies.vectors), before)
    model = embedding_model(loss, learning_rate_multipliers={"proxies": 10.0})
    before = numbers(model.loss.proxies.vectors)
    step = np.abs(numbers(trained(model, 1).loss.proxies.vectors) - before)
    np.testing.assert_allclose(step.max(), 0.5, rtol=1e-3)  # the first step of Adam is the learning rate


def test_each_output_has_proxies_of_its_dimension():
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(3, name="small")(inputs), keras.layers.Dense(5, name="large")(inputs)]
    for arranged in (list, lambda both: dict(zip(["small", "large"], both, strict=True))):
        both = [losses.CosFaceLoss(classes=4), losses.CosFaceLoss(classes=4)]
        models.EmbeddingModel(inputs, outputs).compile("sgd", loss=arranged(both))
        assert [loss.proxies.vectors.shape[1] for loss in both] == [3, 5]


@pytest.mark.everywhere
def test_half_precision_embeddings_are_scored_in_float32():
    loss = losses.ArcFaceLoss(classes=4)
    half = keras.ops.cast(X, "bfloat16")
    values = loss.call(LABELS, half)
    assert keras.backend.standardize_dtype(values.dtype) == "float32"
    np.testing.assert_allclose(numbers(values), numbers(loss.call(LABELS, keras.ops.cast(half, "float32"))), rtol=1e-5)


def test_labels_of_any_integer_type_find_their_proxies():
    proxies = layers.Proxies(300)
    labels = np.array([0, 255])
    expected = numbers(proxies(labels, X[:2]).positive)
    for dtype in ("uint8", "int16", "uint32"):
        np.testing.assert_array_equal(numbers(proxies(labels.astype(dtype), X[:2]).positive), expected)
    np.testing.assert_array_equal(numbers(proxies(labels[:, None], X[:2]).positive), expected)


def test_a_label_outside_the_classes_is_refused_and_nan_where_it_cannot_be_read():
    loss = losses.CosFaceLoss(classes=4)
    unread = compiled(lambda y, x: loss.call(y, x))
    for label in (-1, 4, 2**31 - 1):
        labels = np.array([0, 1, 2, 3, 0, 1, 2, label])
        with pytest.raises(ValueError, match=rf"Received label {label} for the proxies of 4 classes, .* from 0 to 3"):
            loss(labels, X)
        if XLA:
            values = numbers(unread(*(keras.ops.convert_to_tensor(part) for part in (labels, X))))
            np.testing.assert_array_equal(np.isnan(values), labels == label)


def test_a_sample_has_the_classes_of_the_batch_and_others_each_once():
    proxies = layers.Proxies(50, per_class=2, num_sampled_classes=9, seed=0)
    labels = np.array([3, 3, 40, 1, 7, 3, 40, 0])
    for _ in range(5):
        pairs = proxies(labels, X)
        ids, positive, negative = (numbers(p) for p in (pairs.reference_labels, pairs.positive, pairs.negative))
        assert positive.shape == (8, 2 * (8 + 9))
        np.testing.assert_array_equal(positive.sum(axis=1), 2)  # both proxies of its class
        np.testing.assert_array_equal((positive > 0) & (ids != labels[:, None]), False)
        used = ids[(positive + negative).any(axis=0)]
        assert set(labels) <= set(used)
        assert (np.unique(used, return_counts=True)[1] == 2).all()
        assert len(used) / 2 >= 9
        np.testing.assert_array_equal((positive + negative).any(axis=0), (positive + negative).all(axis=0))
        own = [np.flatnonzero(ids == label)[:2] for label in labels]
        vectors = numbers(proxies.vectors).reshape(50, 2, 4)
        np.testing.assert_array_equal(numbers(pairs.references)[own[2]], vectors[40])


@pytest.mark.slow
def test_every_class_is_sampled_equally_often_and_never_twice():
    proxies = layers.Proxies(11, num_sampled_classes=4, seed=0)
    draw = compiled(proxies._sample) if BACKEND == "tensorflow" else proxies._sample
    samples = np.array([numbers(draw()) for _ in range(2000 if BACKEND == "tensorflow" else 300)])
    assert all(len(set(sample)) == 4 for sample in samples.tolist())
    rates = np.bincount(samples.ravel(), minlength=11) / len(samples)
    np.testing.assert_allclose(rates, 4 / 11, atol=5 * np.sqrt(0.25 / len(samples)))


def test_a_sampled_loss_is_the_loss_over_the_proxies_of_the_sample():
    sampled = losses.CosFaceLoss(pairing=layers.Proxies(30, num_sampled_classes=5, seed=1), scale=8.0)
    pairs = sampled.pair(LABELS, X)
    ids, kept = np.unique(numbers(pairs.reference_labels), return_index=True)
    batch = (
        (np.r_[label, ids], np.r_[x[None], numbers(pairs.references)[kept]].astype(float))
        for label, x in zip(LABELS, X, strict=True)
    )
    expected = [loops.cosface(*part, scale=8.0)[0] for part in batch]
    np.testing.assert_allclose(numbers(sampled.on_pairs(pairs)), expected, rtol=1e-5)


@pytest.mark.slow
def test_a_sampled_loss_trains_only_the_proxies_of_its_sample_and_evaluation_repeats_the_sample():
    loss = losses.CosFaceLoss(pairing=layers.Proxies(1000, num_sampled_classes=20, seed=0), scale=8.0)
    model = embedding_model(loss)
    model.compile(keras.optimizers.SGD(0.1), loss=loss)
    assert model.evaluate(X, LABELS, verbose=0) == model.evaluate(X, LABELS, verbose=0)
    before = numbers(loss.proxies.vectors)
    trained(model, 1)
    changed = (numbers(loss.proxies.vectors) != before).any(axis=1)
    assert changed[LABELS].all()
    assert changed.sum() <= 20 + 3


@pytest.mark.slow
@pytest.mark.parametrize("label", [-1, 30])
def test_a_sampled_label_outside_the_classes_is_refused_and_nan_where_it_cannot_be_read(label):
    loss, labels = (
        losses.CosFaceLoss(pairing=layers.Proxies(30, num_sampled_classes=5)),
        np.array([0, 1, 2, 3, 0, 1, 2, label]),
    )
    with pytest.raises(ValueError, match=f"Received label {label} for the proxies of 30 classes"):
        loss(labels, X)
    if BACKEND == "tensorflow":  # on JAX the state of a seed does not leave a compiled function
        values = compiled(lambda y, x: loss.call(y, x))(*(keras.ops.convert_to_tensor(part) for part in (labels, X)))
        np.testing.assert_array_equal(np.isnan(numbers(values)), labels == label)


def test_samples_refuse_a_match_and_as_many_classes_as_there_are():
    with pytest.raises(ValueError, match="Received num_sampled_classes=30, expected a whole number from 1 to 29"):
        layers.Proxies(30, num_sampled_classes=30)
    loss = losses.CosFaceLoss(pairing=layers.Proxies(30, num_sampled_classes=5), match=lambda a, b: a[:, None] == b)
    with pytest.raises(ValueError, match="Received num_sampled_classes=5 and a match, expected one of them"):
        loss(LABELS, X)


@pytest.mark.parametrize("sampled", [None, 2])
def test_proxies_of_any_class_ids(sampled):
    ids = np.array([-7, 12, 2**31 - 1] if BACKEND == "jax" else [-(2**62), 12, 2**62 + 1])
    labels = ids[[2, 0, 2, 1, 1, 0, 0, 2]]
    proxies = layers.Proxies(labels, per_class=2, num_sampled_classes=sampled, seed=0)
    pairs = proxies(labels, X)
    np.testing.assert_array_equal(proxies.ids, ids)
    positive, references = numbers(pairs.positive) > 0, numbers(pairs.references)
    for row, label in enumerate(labels):
        own = numbers(proxies.vectors).reshape(3, 2, 4)[np.searchsorted(ids, label)]
        np.testing.assert_array_equal(np.unique(references[positive[row]], axis=0), np.unique(own, axis=0))
    again = layers.Proxies.from_config(json.loads(json.dumps(proxies.get_config())))
    np.testing.assert_array_equal(again.ids, ids)
    with pytest.raises(ValueError, match=r"Received label 5 for the proxies of 3 classes, expected one of their ids"):
        proxies(np.where(labels == 12, 5, labels), X)


def test_embeddings_of_another_dimension_are_refused():
    loss = losses.CosFaceLoss(classes=4)
    loss(LABELS, X)
    with pytest.raises(ValueError, match=r"embeddings of shape \(8, 3\) for Proxies of dimension 4"):
        loss(LABELS, X[:, :3])
    with pytest.raises(ValueError, match="seed=3 and an initializer, expected one of them"):
        layers.Proxies(4, initializer="zeros", seed=3)


def test_a_loss_over_another_pairing_has_no_proxies():
    with pytest.raises(AttributeError, match=r"pairing=.*all_pairs.*, expected proxies. Make the loss with classes="):
        losses.CosFaceLoss(pairing=losses.PairLoss(losses.functional.cosface).pairing).proxies  # noqa: B018


def test_the_default_norm_is_about_1_and_a_seed_repeats_the_proxies():
    first, again = layers.Proxies(50, seed=3), layers.Proxies(50, seed=3)
    for proxies in (first, again):
        proxies.build((None,), (None, 400))
    np.testing.assert_array_equal(numbers(first.vectors), numbers(again.vectors))
    np.testing.assert_allclose(np.linalg.norm(numbers(first.vectors), axis=1), 1, atol=0.2)
