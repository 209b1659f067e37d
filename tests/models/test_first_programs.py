"""The programs that everybody writes first, through `compile` and `fit` with plain arrays."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.backend import BACKEND, XLA, numbers
from tests.worlds import linear
from tfdml import evaluation, layers, losses, miners, models, pairs, samplers
from tfdml.datasets import LabeledSet

pytestmark = pytest.mark.backends

X = np.random.default_rng(0).standard_normal((48, 3)).astype("float32")
Y = np.arange(48) // 6  # eight classes
IMAGES = np.random.default_rng(1).integers(0, 256, (24, 2, 2, 3), "uint8")
COMPILED = [{}, pytest.param({"jit_compile": True}, marks=pytest.mark.slow)] if BACKEND == "tensorflow" else [{}]
GROUPS = samplers.GroupSampler(classes_per_batch=4, examples_per_class=3, seed=0)


def taken(x, y, rows=12):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(rows, drop_remainder=True)


def generated(x, y):
    yield from zip(x.reshape(4, 12, 3), y.reshape(4, 12), strict=True)


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        rows = slice(12 * number, 12 * number + 12)
        return X[rows], Y[rows] + 1


def unchanged(model, message, *data, **options):
    """Whether `fit` raises the message, and no weight has changed before."""
    before = [numbers(variable).copy() for variable in model.trainable_variables]
    with pytest.raises(ValueError, match=message):
        model.fit(*data, verbose=0, **options)
    return all(map(np.array_equal, before, map(numbers, model.trainable_variables)))


UNKNOWN = r"Received label 8 for the proxies of 8 classes, expected one of their ids, which are from 0 to 7\."
FROM_1 = {"x": X, "y": Y + 1, "batch_size": 12}
WRONG = {  # loss, arguments of its fit or a function of none, message of eager mode
    "labels from 1": (lambda: losses.ArcFaceLoss(classes=8), FROM_1, UNKNOWN),
    "labels from 1, sampled proxies": (
        lambda: losses.NTXentLoss(pairing=layers.Proxies(8, num_sampled_classes=4)),
        FROM_1,
        UNKNOWN,
    ),
    "labels from 1 of a sampler": (
        lambda: losses.ProxyAnchorLoss(classes=8),
        lambda: {"x": GROUPS.batches(X, Y + 1), "steps_per_epoch": 2, "shuffle": False},
        UNKNOWN,
    ),
    "counts without a class": (
        lambda: losses.BalancedContrastiveLoss(class_counts=[6] * 7, negatives_per_positive=4),
        {"x": X, "y": Y, "batch_size": 12},
        "Received label 7, which class_counts does not cover",
    ),
    "labels of pairs that Keras shuffles": (
        lambda: losses.ContrastiveLoss(pairing=pairs.labeled_pairs),
        {"x": X, "y": np.arange(48) // 2 % 2, "batch_size": 12},
        "expected 1 on both rows of a similar pair",
    ),
    "class ids as labels of pairs": (
        lambda: losses.ContrastiveLoss(pairing=pairs.labeled_pairs),
        lambda: {"x": taken(X, Y + 2), "shuffle": False},
        "For class ids use consecutive_pairs",
    ),
    "embeddings of other norms": (
        lambda: losses.ContrastiveLoss(miner=miners.DistanceWeighted()),
        {"x": X, "y": Y, "batch_size": 12},
        r"Received embeddings with norms from .* End the model with keras\.layers\.UnitNormalization",
    ),
    "validation of other classes": (
        lambda: losses.ArcFaceLoss(classes=8),
        {"x": X, "y": Y, "batch_size": 12, "validation_data": (X, Y + 8)},
        "labels of validation_data: for classes that are not trained, leave it out",
    ),
}


@pytest.mark.parametrize("options", COMPILED, ids=str)
@pytest.mark.parametrize(("loss", "arguments", "message"), WRONG.values(), ids=WRONG)
def test_numbers_that_a_loss_refuses_are_its_error_before_a_weight_changes(loss, arguments, message, options):
    arguments = arguments() if callable(arguments) else arguments
    assert unchanged(linear(loss(), **options), message, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("data", [lambda: taken(X, Y + 1), lambda: generated(X, Y + 1), Sequence])
def test_a_later_batch_with_a_wrong_label_is_an_error_and_changes_no_weight(data):
    model = linear(losses.ArcFaceLoss(classes=8), jit_compile=XLA)
    with pytest.raises(ValueError, match=UNKNOWN):
        model.fit(data(), verbose=0, shuffle=False)
    assert all(np.isfinite(numbers(variable)).all() for variable in model.variables)
    assert model.steps <= 3


def test_evaluate_and_single_batches_have_the_same_errors():
    model = linear(losses.ArcFaceLoss(classes=8))
    for method in (model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match=UNKNOWN):
            method(X, Y + 1)


def network_of_images():
    inputs = keras.Input((2, 2, 3), dtype="uint8", name="pixels")
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(inputs))
    model = models.EmbeddingModel(inputs, keras.layers.Dense(3)(x))
    model.compile("adam", loss=losses.ContrastiveLoss())
    return model


def test_images_divided_by_255_do_not_become_black():
    model, divided, labels = network_of_images(), IMAGES / np.float32(255), np.arange(24) // 6
    message = r"Received floats in \[0, 1\] for the input 'pixels' of uint8.* before the division by 255"
    batches = samplers.GroupSampler(classes_per_batch=2, examples_per_class=3).batches(divided, labels)
    assert unchanged(model, message, divided, labels)
    assert unchanged(model, message, batches, steps_per_epoch=2, shuffle=False)
    assert unchanged(model, message, IMAGES, labels, validation_data=(divided, labels))
    for call in (model.predict, model.predict_on_batch, lambda x: models.embed(model, x)):
        with pytest.raises(ValueError, match=message):
            call(divided)
    for right in (IMAGES, IMAGES.astype("float32"), (IMAGES > 127).astype("float32"), np.zeros_like(divided)):
        assert model.predict(right, verbose=0).shape == (24, 3)


def test_images_divided_by_255_for_a_backbone_that_scales_pixels_are_a_warning_once():
    backbone = keras.Sequential([keras.Input((2, 2, 3)), keras.layers.Conv2D(2, 1)])
    model = models.from_backbone(backbone, dim=3)
    with pytest.warns(UserWarning, match=r"Received floats in \[0, 1\] for the input of a model of from_backbone"):
        model.predict(IMAGES / np.float32(255), verbose=0)
    model.predict(IMAGES / np.float32(255), verbose=0)
    model.predict(IMAGES, verbose=0)


FEW = r"4\.2% of the anchors of the first epoch had a positive.*GroupSampler"


@pytest.mark.slow
@pytest.mark.parametrize("data", [lambda y: (X, y), lambda y: (taken(X, y),)])
def test_an_epoch_without_positives_is_one_warning_and_other_losses_and_samplers_have_none(data):
    lonely = np.where(np.arange(48) == 1, 0, np.arange(48))  # one class of two, in one batch of four
    settings = {"shuffle": False, "verbose": 0}
    model = linear(losses.TripletLoss())
    with pytest.warns(UserWarning, match=FEW):
        model.fit(*data(lonely), **settings, batch_size=12 if len(data(Y)) > 1 else None, epochs=2)
    model.fit(*data(lonely), **settings)
    linear(losses.ArcFaceLoss(classes=48)).fit(*data(lonely), **settings)
    linear(losses.TripletLoss()).fit(*data(Y), **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "options", "share"),
    [(Y, {"shuffle": False}, "0.0%"), (np.zeros(48, int), {}, "0.0%"), (np.arange(48) // 47, {}, None)],
)
def test_an_epoch_without_negatives_is_one_warning(labels, options, share):
    with contextlib.nullcontext() if share is None else pytest.warns(UserWarning, match=f"{share}.* had a negative"):
        linear(losses.TripletLoss()).fit(X, labels, batch_size=6 if share else 48, verbose=0, **options)


@pytest.mark.parametrize(
    ("pairing", "positive", "negative"),
    [  # of the labels 0 0 0 1 2 3, by hand
        (pairs.all_pairs, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]),
        (pairs.even_against_odd, [1, 1, 0], [1, 1, 1]),
    ],
)
def test_anchors_with_a_positive_and_with_a_negative_are_counted_by_the_pairing(pairing, positive, negative):
    checks = linear(losses.ContrastiveLoss(pairing=pairing))._checks(counts_positives=True)
    checks.of_data(X[:6], np.array([0, 0, 0, 1, 2, 3]), 6)
    np.testing.assert_array_equal(np.concatenate(checks._counted, axis=1), [positive, negative])


WITHOUT_ORDER = [losses.NTXentLoss(pairing=pairs.two_views), losses.TripletLoss(pairing=pairs.triplet_rows)]


@pytest.mark.parametrize("loss", [*WITHOUT_ORDER, losses.MatryoshkaLoss(WITHOUT_ORDER[0], dims=(2, 4))])
def test_views_and_triplets_that_keras_would_shuffle_are_an_error(loss):
    for labels in (np.zeros(48, int), None) if loss is WITHOUT_ORDER[0] else (Y,):
        assert unchanged(linear(loss), "Received shuffle=True .* expected shuffle=False", X, labels, batch_size=12)
        linear(loss).fit(X, labels, batch_size=12, shuffle=False, verbose=0)


TRIPLETS = WITHOUT_ORDER[1]
DIVIDED = [  # loss, rows, arguments of fit, what is told
    (TRIPLETS, 48, {"batch_size": 16}, "16 rows of 48 .*batch_size=16.* multiple of 3"),
    (TRIPLETS, 46, {"batch_size": 12}, "10 rows of 46 .*multiple of 3"),
    (TRIPLETS, 48, {"batch_size": 12, "validation_split": 0.2}, "2 rows of 48 .*multiple of 3"),
    (losses.ContrastiveLoss(pairing=pairs.consecutive_pairs), 47, {"batch_size": 12}, "11 rows of 47.* multiple of 2"),
]


@pytest.mark.parametrize(("loss", "rows", "options", "message"), DIVIDED)
def test_batches_that_divide_a_pair_or_a_triplet_are_an_error_before_a_weight_changes(loss, rows, options, message):
    assert unchanged(linear(loss), message, X[:rows], Y[:rows], shuffle=False, **options)


def test_a_short_last_batch_that_divides_a_group_or_a_micro_batch_is_an_error_that_says_so():
    dataset = tf.data.Dataset.from_tensor_slices((X[:20], Y[:20])).batch(12)
    with pytest.raises(ValueError, match=r"a batch of 8 rows for .*expected a multiple of 3"):
        linear(TRIPLETS).fit(dataset, shuffle=False, verbose=0)
    assert unchanged(
        linear(losses.TripletLoss(), micro_batch_size=4), "a batch of 6 rows.*multiple of 4", X[:18], Y[:18], 12
    )


def test_what_is_no_batch_of_examples_with_ids_is_named():
    model = linear(losses.ContrastiveLoss())
    examples = tf.data.Dataset.from_tensor_slices((X, Y))
    assert unchanged(model, r"Received a dataset of single examples, .*dataset\.batch", examples, shuffle=False)
    assert unchanged(model, r"Received no labels, .*fit\(x, labels\)", X)


def test_text_lists_and_numbers_in_place_of_labels_are_errors_that_say_how_to_number_them():
    model, words = linear(losses.ContrastiveLoss()), np.array(list("abcdefgh"))[Y]
    for labels in (words, words.tolist(), words.astype(object)):
        assert unchanged(model, r"expected integer class ids\. Number them with np\.unique", X, labels)
    for labels in (Y.tolist(), 3):
        assert unchanged(model, r"labels that are no array.* Pass np\.asarray\(labels\)", X, labels)
    assert unchanged(model, r"dtype string.* Number them with np\.unique", taken(X, words), shuffle=False)
    with pytest.raises(ValueError, match=r"Received labels of shape \(\)"):
        losses.ContrastiveLoss()(3, X)


def test_exchanged_arguments_are_an_error_that_says_the_order_and_what_fits_both_ways_is_none():
    model, message = linear(losses.ContrastiveLoss()), r"labels of shape \(.*3\) for an input .*Exchange the two"
    for labels in (Y, Y[:, None]):
        assert unchanged(model, message, labels, X)
        assert unchanged(model, message, X, Y, validation_data=(labels, X))
        assert unchanged(model, message, taken(labels, X), shuffle=False)
        for method in (model.evaluate, model.train_on_batch, model.test_on_batch):
            with pytest.raises(ValueError, match=message):
                method(labels, X)
    with pytest.raises(ValueError, match=r"a model of type ndarray, expected embed\(model, data\)"):
        models.embed(X, model)
    for exchanged in ((Y, X), (X, model), (LabeledSet(images=X, labels=Y, class_names=tuple("abcdefgh")), model)):
        with pytest.raises(ValueError, match=r"in this order, expected a model and a labeled set, .*Exchange the two"):
            evaluation.evaluate(*exchanged)
    column = linear(losses.ContrastiveLoss(), features=1, optimizer="sgd")
    column.fit(X[:, :1], Y[:, None], verbose=0)


def test_a_class_in_place_of_a_loss_leaves_the_earlier_compile_as_it_was():
    model = linear(losses.ArcFaceLoss(classes=8))
    loss, layer = model.loss, model.loss_layers[0]
    for options, message in (
        ({"loss": losses.MultiSimilarityLoss}, r"the class MultiSimilarityLoss as a loss, .* MultiSimilarityLoss\("),
        ({"loss": losses.ContrastiveLoss(), "learning_rate_multipliers": {"no": 2.0}}, "'no', expected names"),
        ({"loss": losses.ContrastiveLoss(), "metrics": ["accuracy"]}, r"metric 'accuracy'.*RetrievalEvaluation"),
        ({"loss": losses.ArcFaceLoss(classes=3), "metrics": [keras.metrics.SparseCategoricalAccuracy()]}, "columns"),
    ):
        with pytest.raises(ValueError, match=message):
            model.compile("adam", **options)
    assert model.loss is loss
    assert model.loss_layers == [layer]
    assert np.isfinite(model.train_on_batch(X, Y))


def test_accuracy_of_another_output_and_of_a_keras_loss_is_none_of_its_business():
    inputs = keras.Input((3,))
    outputs = {"embedding": keras.layers.Dense(4)(inputs), "scores": keras.layers.Dense(8)(inputs)}
    model = models.EmbeddingModel(inputs, outputs)
    both = {"embedding": losses.ContrastiveLoss(), "scores": keras.losses.SparseCategoricalCrossentropy(True)}
    model.compile("adam", loss=both, metrics={"scores": ["accuracy"]})
    assert "scores_accuracy" in model.test_on_batch(X, {"embedding": Y, "scores": Y}, return_dict=True)


@pytest.mark.parametrize("name", ["model.h5", "model.HDF5"])
def test_a_file_that_nothing_could_load_is_not_written(name, tmp_path):
    with pytest.raises(ValueError, match=r"expected a name that ends in \.keras"):
        linear(losses.ContrastiveLoss()).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_batches_of_anchor_positive_and_negative_are_an_error_that_says_how_to_train_on_them():
    model = linear(losses.TripletLoss())
    triplets = tf.data.Dataset.from_tensor_slices((X, X + 0.1, X[::-1])).batch(8)
    assert unchanged(model, "Batches of .anchor, positive, negative. become.*triplet_rows", triplets, shuffle=False)
    assert unchanged(model, r"\(anchor, positive\) rows 2k", X, X)

    def in_rows(*triplet):
        return tf.reshape(tf.stack(triplet, axis=1), (-1, 3)), tf.zeros(3 * tf.shape(triplet[0])[0], tf.int32)

    model.compile("adam", loss=losses.TripletLoss(pairing=pairs.triplet_rows, margin=9.0))
    run = model.fit(triplets.map(in_rows), verbose=0, shuffle=False)
    assert 0 < run.history["loss"][0] < 10


def test_a_clone_has_made_no_steps(tmp_path):
    model = linear(losses.ContrastiveLoss())
    model.train_on_batch(X, Y)
    assert keras.models.clone_model(model).steps == 0
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").steps == 1


def test_a_subclass_without_inputs_and_outputs_is_an_error_that_says_how_to_wrap_it():
    class Own(models.EmbeddingModel):
        def __init__(self):
            super().__init__()

    with pytest.raises(ValueError, match=r"Own without inputs and outputs, .*EmbeddingModel\(inputs, network"):
        Own()


def test_options_in_the_wrong_place_say_where_they_belong():
    with pytest.raises(ValueError, match=r"expected a loss over pairs of class ids.*WeightedSumLoss"):
        losses.MatryoshkaLoss(losses.SimilarityPreservingLoss())
    with pytest.raises(ValueError, match="Pass proxies as pairing="):
        losses.ArcFaceLoss(classes=layers.Proxies(3))
    with pytest.raises(TypeError, match=r"ArcFaceLoss\(pairing=tfdml.layers.Proxies\(classes, num_sampled_classes=3"):
        losses.ArcFaceLoss(classes=5, num_sampled_classes=3)


def with_nan(values, row=5):
    values = values.astype("float32")
    values[row] = np.nan
    return values


def test_a_row_with_nan_is_named_before_a_weight_changes_unless_the_network_fills_it_in():
    model = linear(losses.ContrastiveLoss())
    assert unchanged(model, r"examples with a value that is NaN or infinite \(first in row 5\)", with_nan(X), Y)
    assert unchanged(model, r"sample_weight that is NaN .*row 7", X, Y, sample_weight=with_nan(np.ones(48), 7))
    assert unchanged(model, "row 5", X, Y, validation_data=(with_nan(X), Y))
    inputs = keras.Input((3,))
    filled = keras.ops.where(keras.ops.isnan(inputs), 0.0, inputs)
    imputing = models.EmbeddingModel(inputs, keras.layers.Dense(4)(filled))
    imputing.compile("adam", loss=losses.ContrastiveLoss())
    assert np.isfinite(imputing.fit(with_nan(X), Y, verbose=0).history["loss"]).all()


def test_a_stream_with_nan_is_one_warning_of_the_loss():
    with pytest.warns(UserWarning, match=r"The loss of epoch 1 is not finite.*TerminateOnNaN") as noted:
        linear(losses.ContrastiveLoss()).fit(taken(with_nan(X), Y), verbose=0, shuffle=False, epochs=2)
    assert sum(each.category is UserWarning for each in noted) == 1


def test_validation_batches_without_pairs_and_towers_with_one_label_are_a_warning():
    ordered = {"batch_size": 12, "verbose": 0}
    with pytest.warns(UserWarning, match=r"0\.0% of the anchors of the validation data had a negative"):
        linear(losses.ContrastiveLoss()).fit(X, Y, validation_data=(X, 0 * Y), **ordered)
    with pytest.warns(UserWarning, match=r"0\.0% of the anchors of the validation data had a positive"):
        linear(losses.ContrastiveLoss()).fit(X, np.append(Y[:24] % 4, np.arange(24)), validation_split=0.5, **ordered)
    towers = models.TwoTowers(*(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]) for _ in range(2)))
    towers.compile("sgd", loss=losses.ContrastiveLoss(pairing=pairs.two_towers))
    with pytest.warns(UserWarning, match=r"0\.0% of the anchors of the first epoch had a negative"):
        towers.fit((X, X), 0 * Y, **ordered)


def test_layers_that_are_frozen_or_not_after_compile_are_a_warning_where_nothing_changes():
    model = linear(losses.ContrastiveLoss())
    layer = model.get_layer("dense")
    layer.trainable = False
    layer.trainable = True
    model.fit(X, Y, verbose=0)
    layer.trainable = False
    with pytest.warns(UserWarning, match="trainable of dense has changed since the model was compiled"):
        model.fit(X, Y, verbose=0)


def test_a_call_with_fractions_for_an_input_of_integers_is_an_error():
    model = network_of_images()
    with pytest.raises(ValueError, match=r"floats in \[0, 1\] for the input 'pixels' of uint8"):
        model(IMAGES / np.float32(255))
    for right in (IMAGES, keras.ops.convert_to_tensor(IMAGES.astype("float32")), keras.Input((2, 2, 3))):
        assert tuple(model(right).shape)[1:] == (3,)


@pytest.mark.parametrize("metric", ["accuracy", "mse", "mae", "cosine_similarity", keras.metrics.MeanSquaredError()])
def test_metrics_of_embeddings_and_class_ids_are_an_error_for_each_output(metric):
    inputs = keras.Input((3,))
    outputs = {"embedding": keras.layers.Dense(4)(inputs), "scores": keras.layers.Dense(8)(inputs)}
    model = models.EmbeddingModel(inputs, outputs)
    both = {"embedding": losses.ContrastiveLoss(), "scores": keras.losses.SparseCategoricalCrossentropy(True)}
    with pytest.raises(ValueError, match="it would compare class ids with the columns of embeddings"):
        model.compile("adam", loss=both, metrics={"embedding": [metric], "scores": ["accuracy"]})
