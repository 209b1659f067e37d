"""What a loss learns, remembers and draws: training changes it, evaluation does not, files keep it; and its configs."""

import json

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, XLA, numbers
from tests.layers.fitted import LABELS, X, embedding_model, trained
from tests.losses.test_own_loss import own_loss
from tfdml import layers, losses, miners, pairs

pytestmark = pytest.mark.backends

OLD = np.random.default_rng(1).standard_normal((3, 3)).astype("float32")
GROWING = keras.optimizers.schedules.PolynomialDecay(0.0, decay_steps=4, end_learning_rate=0.4)


def tree():
    made = layers.ClassTree(LABELS, levels=4)
    made.refresh(X, LABELS)
    return made


COSINES = {"margin": 3.0, "boundary": 0.5, "distance": "cosine"}
SETS = losses.uncertainty
LOSSES = {
    "boundaries": lambda: losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS), nu=0.1),
    "boundaries of a base": lambda: losses.RobustLoss(
        losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS)), uncertainty=SETS.TopK(10)
    ),
    "proxies": lambda: losses.ProxyAnchorLoss(classes=4),
    "proxies and a schedule": lambda: losses.ArcFaceLoss(classes=4, margin=layers.ScheduledOption(GROWING), scale=8.0),
    "proxies of prefixes": lambda: losses.MatryoshkaLoss(losses.CosFaceLoss(classes=4), dims=(2, 3)),
    "proxies of a part": lambda: losses.WeightedSumLoss(
        [losses.TripletLoss(miner=miners.HardestNegatives()), losses.CosFaceLoss(classes=4)], weights=[1.0, 0.1]
    ),
    "a memory": lambda: losses.MultiSimilarityLoss(pairing=layers.Memory(20, warm_up=2)),
    "a memory of prefixes": lambda: losses.MatryoshkaLoss(losses.TripletLoss(pairing=layers.Memory(20)), dims=(2, 3)),
    "a temperature": lambda: losses.CLIPLoss(pairing=pairs.even_against_odd),
    "a scale and a bias": lambda: losses.SigmoidLoss(pairing=pairs.even_against_odd),
    "a histogram": lambda: losses.DynamicSoftMarginLoss(bins=20, momentum=0.25),
    "regressors": lambda: losses.AdversarialLoss(losses.ContrastiveLoss(), dims=(1, 2)),
    "a metric": lambda: losses.PDDMLoss(metric=layers.PositionDependentMetric(units=4)),
    "random negatives": lambda: losses.TripletLoss(negatives=miners.RandomNegatives(seed=1)),
    "draws by distance": lambda: losses.MarginLoss(miner=miners.DistanceWeighted(seed=1)),
    "draws of a composition": lambda: losses.ContrastiveLoss(
        miner=miners.compose(miners.EasyPositives(), miners.BalancedPairs(seed=3))
    ),
    "draws of a base": lambda: losses.RobustLoss(
        losses.MarginLoss(**COSINES, miner=miners.BalancedPairs(seed=0)), uncertainty=SETS.TopK(4)
    ),
    "sampled weights": lambda: losses.RobustLoss(
        losses.MarginLoss(**COSINES), uncertainty=SETS.KL(0.3, num_samples=12, seed=0)
    ),
    "fixed references": lambda: losses.NTXentLoss(pairing=layers.FixedReferences(OLD, LABELS[1:4]), temperature=0.2),
    "a tree": lambda: losses.HierarchicalTripletLoss(tree()),
    "a function": lambda: own_loss(negative_margin=1.5),
}
GIVEN = ("fixed references", "a tree", "a function")  # training changes nothing of it


def state(model):
    """The variables of the model, then those of the layers of its loss, with the states of random ones."""
    return [numbers(variable) for part in (model, *model.loss.layers) for variable in part.variables]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_fit_changes_the_layers_of_a_loss_and_a_file_trains_on_as_the_model(name, tmp_path):
    model = embedding_model(LOSSES[name](), jit_compile=XLA)
    before = state(model)
    trained(model, 3)
    of_loss = slice(len(model.variables), None)
    moved = [(x != y).any() for x, y in zip(before[of_loss], state(model)[of_loss], strict=True)]
    assert any(moved) != (name in GIVEN)
    before = state(model)
    assert model.evaluate(X, LABELS, verbose=0) == model.evaluate(X, LABELS, verbose=0)
    for one, other in zip(before, state(model), strict=True):
        np.testing.assert_array_equal(one, other)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.loss.get_config() == model.loss.get_config()
    for one, other in zip(state(model), state(again), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(state(trained(model, 2)), state(trained(again, 2)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    if BACKEND == "tensorflow" and name == "boundaries":
        model.export(tmp_path / "exported", verbose=False)
        import tensorflow as tf

        served = tf.saved_model.load(tmp_path / "exported")
        assert {tuple(variable.shape) for variable in served.variables} == {(4, 3), (3,)}


LAYERS = {
    layers.Boundaries: {"initial": 0.9, "class_ids": [3, 5], "examples": 7},
    layers.ClassTree: {"class_ids": [3, 5], "levels": 4},
    layers.LearnedScalar: {"initial": 0.07, "log": True, "minimum": 0.01},
    layers.Mahalanobis: {"rank": 2, "normalize_trace": True, "seed": 4},
    layers.Memory: {"size": 8, "warm_up": 3},
    layers.PositionDependentMetric: {"units": 6, "seed": 1},
    layers.Proxies: {"classes": 4, "per_class": 2, "num_sampled_classes": 3, "seed": 1},
    layers.Regressors: {"dims": (2, 4), "units": 3, "seed": 2},
    miners.BalancedPairs: {"seed": 3},
    miners.DistanceWeightedNegatives: {"cutoff": 0.4, "max_distance": 1.2, "clip": 2.0, "seed": 4},
}


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: make.__name__)
def test_a_layer_comes_back_from_its_config_with_all_options_and_its_name(make):
    layer, options = make(**LAYERS[make], name="mine"), LAYERS[make] | {"name": "mine"}
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(layer))))
    assert type(again) is make
    for each in (layer, again):
        config = each.get_config()
        np.testing.assert_equal({name: config[name] for name in options}, options)
