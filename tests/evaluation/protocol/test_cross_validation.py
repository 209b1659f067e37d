"""The search on class-disjoint folds, and the opening of the test classes."""

import json

import keras
import numpy as np
import optuna
import pytest

import tfdml
from tests.damage import changed, paths, refusal
from tests.oracles import unit
from tfdml.datasets import LabeledSet
from tfdml.evaluation import class_folds, cross_validate
from tfdml.evaluation.protocol import cross_validation
from tfdml.evaluation.protocol.trials import read_trials

optuna.logging.set_verbosity(optuna.logging.WARNING)

DIM = 6


def vectors(first, classes, examples=4, protocol=None):
    """A set of points; only the first three of six columns depend on the class."""
    random = np.random.default_rng(first)
    labels = np.repeat(np.arange(classes), examples)
    x = 3 * random.normal(size=(len(labels), DIM))
    x[:, :3] = random.normal(size=(classes, 3))[labels] + 0.3 * random.normal(size=(len(labels), 3))
    names = tuple(f"class-{first + number}" for number in range(classes))
    return LabeledSet(images=x.astype("float32"), labels=labels, class_names=names, protocol=protocol)


TRAINING = vectors(0, 18)
TEST = vectors(100, 10, protocol="points/class-disjoint/exact-cosine/v1")


def space(trial):
    return {"weight": trial.suggest_float("weight", 0.0, 1.0), "kind": "scaled"}


def scaled(settings, training, seed):
    """A "trained" model: the columns without a class have a weight; the seed adds a little noise."""
    weights = np.where(np.arange(DIM) < 3, 1.0, settings["weight"])
    inputs = keras.Input((DIM,))
    layer = keras.layers.Dense(DIM, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    noise = 0.05 * np.random.default_rng(seed).normal(size=(DIM, DIM))
    layer.set_weights([(np.diag(weights) + noise).astype("float32")])
    return model


def search_in(folder, train=scaled, **options):
    return cross_validate(train, TRAINING, space, folder, **{"folds": 2, "trials": 3, **options})


def files(folder):
    return {path.name: path.read_text() for path in folder.glob("*.json")}


class Killed(BaseException):
    """The process ends."""


def killed_after(count):
    """`scaled`, until it has been called `count` times."""
    calls = []

    def train(settings, training, seed):
        calls.append(seed)
        if len(calls) > count:
            raise Killed
        return scaled(settings, training, seed)

    return train


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return search_in(tmp_path_factory.mktemp("search"))


def test_every_class_is_held_out_once_and_no_fold_has_a_class_on_both_sides():
    folds = class_folds(TRAINING, 4, seed=3)
    held_out = [name for _, validation in folds for name in validation.class_names]
    assert sorted(held_out) == sorted(TRAINING.class_names)
    for training, validation in folds:
        tfdml.datasets.require_disjoint(training, validation)
        assert len(training) + len(validation) == len(TRAINING)
        assert len(validation.class_names) in (4, 5)
        assert np.unique(training.labels).tolist() == list(range(len(training.class_names)))


def test_the_folds_depend_on_the_seed_and_not_on_the_order_of_the_classes():
    order = np.random.default_rng(0).permutation(18)
    turned = LabeledSet(
        images=TRAINING.images,
        labels=np.argsort(order)[TRAINING.labels],
        class_names=tuple(TRAINING.class_names[number] for number in order),
    )
    names = [[set(v.class_names) for _, v in class_folds(part, 3, seed=1)] for part in (TRAINING, turned)]
    assert names[0] == names[1]
    assert names[0] != [set(v.class_names) for _, v in class_folds(TRAINING, 3, seed=2)]


@pytest.mark.parametrize(
    ("data", "folds", "message"),
    [
        (TRAINING.labels, 3, "type ndarray"),
        (TRAINING, 1, "folds=1"),
        (TRAINING, 10, "18 classes and folds=10"),
        (vectors(0, 8, examples=1), 2, "without a class of two examples"),
    ],
)
def test_sets_that_cannot_be_divided_are_refused(data, folds, message):
    with pytest.raises(ValueError, match=message):
        class_folds(data, folds)


def test_a_trial_is_the_mean_over_the_validation_classes_of_all_folds(finished):
    assert len(finished.trials) == 3
    for trial in finished.trials:
        values = []
        for fold, (training, validation) in enumerate(finished.folds):
            seed = tfdml.evaluation.protocol.folds.derived_seed(0, 0, fold)
            x = tfdml.models.embed(scaled(trial.settings, training, seed), validation)
            values.append(tfdml.metrics.retrieval(x, validation.labels, k=1)["map@r"])
        assert trial.value == pytest.approx(np.mean(values))
    assert finished.best.value == max(trial.value for trial in finished.trials)
    assert finished.settings == finished.best.settings
    assert (
        str(finished).splitlines()[1].startswith(f"{finished.best.number:5}{100 * finished.best.value:13.1f}  weight=")
    )


def test_a_search_finds_the_settings_that_help(tmp_path):
    found = search_in(tmp_path, folds=2, trials=8)
    weights = [trial.settings["weight"] for trial in found.trials]
    assert found.settings["weight"] == min(weights) < 0.3  # the columns without a class are noise
    assert len(set(weights)) == 8


@pytest.mark.parametrize("count", [0, 3, 4])  # before the first fold, inside the second trial, between two trials
def test_a_search_that_was_killed_resumes_and_ends_as_if_it_had_not_been(tmp_path, finished, count):
    with pytest.raises(Killed):
        search_in(tmp_path, killed_after(count))
    remaining = killed_after(6 - count)  # no fold is trained twice
    resumed = search_in(tmp_path, remaining)
    assert resumed.settings == finished.settings
    assert files(tmp_path) == {name: text for name, text in files(finished.path).items() if "opening" not in name}


def test_more_trials_are_added_to_those_that_are_kept(tmp_path, finished):
    first = search_in(tmp_path, trials=2)
    assert search_in(tmp_path, killed_after(0), trials=2).trials == first.trials
    assert [trial.settings for trial in search_in(tmp_path).trials] == [trial.settings for trial in finished.trials]


def test_a_folder_of_another_search_is_refused(tmp_path):
    search_in(tmp_path, trials=1)
    for options, name in (({"seed": 1}, "seed, folds"), ({"folds": 3}, "folds"), ({"metric": "mrr"}, "metric")):
        with pytest.raises(ValueError, match=f"a search with other {name}"):
            search_in(tmp_path, **options)
    with pytest.raises(Killed):
        search_in(tmp_path, killed_after(1), trials=2)
    with pytest.raises(ValueError, match="was begun with"):
        cross_validate(scaled, TRAINING, lambda trial: {"weight": 3.0}, tmp_path, folds=2, trials=2)


def test_a_folder_has_one_search_at_a_time(tmp_path):
    def train(settings, training, seed):
        with pytest.raises(BlockingIOError, match="which process"):
            search_in(tmp_path / "search", seed=1)
        return scaled(settings, training, seed)

    assert len(search_in(tmp_path / "search", train, trials=1).trials) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["search"]


def test_a_model_that_has_diverged_counts_as_zero_and_the_search_goes_on(tmp_path):
    def diverges(settings, training, seed):
        model = scaled(settings, training, seed)
        if settings["weight"] > 0.5:
            model.set_weights([np.full((DIM, DIM), np.nan)])
        return model

    found = search_in(tmp_path, diverges, trials=6)
    bad = [trial for trial in found.trials if trial.settings["weight"] > 0.5]
    assert 0 < len(bad) < 6
    assert all(trial.value == 0 and "NaN" in trial.problem for trial in bad)
    assert found.settings["weight"] <= 0.5
    assert "with a problem" in str(found)


def test_wrong_options_and_settings_are_refused_before_anything_is_trained(tmp_path):
    for options, message in (({"metric": "loss"}, "metric='loss'"), ({"trials": 0}, "trials=0")):
        with pytest.raises(ValueError, match=message):
            search_in(tmp_path / "new", killed_after(0), **options)
    assert not (tmp_path / "new").exists()
    with pytest.raises(TypeError, match="not JSON serializable"):
        cross_validate(killed_after(0), TRAINING, lambda trial: {"loss": object()}, tmp_path, folds=3)


def test_the_test_numbers_are_those_of_single_models_and_of_their_embeddings_side_by_side(finished):
    found = finished.open_test(TEST, k=1)
    seeds = [tfdml.evaluation.protocol.folds.derived_seed(0, 1, fold) for fold in range(2)]
    x = [tfdml.models.embed(scaled(finished.settings, None, seed), TEST) for seed in seeds]
    single = [tfdml.metrics.retrieval(each, TEST.labels, k=1, full_map=False) for each in x]
    together = tfdml.metrics.retrieval(np.concatenate([*map(unit, x)], axis=1), TEST.labels, k=1)
    for name, value in found.separated.items():
        assert value.value == pytest.approx(np.mean([each[name] for each in single]))
        assert value.low < value.value < value.high
        assert found.concatenated[name].value == pytest.approx(together[name])
        assert [each[name] for each in found.models] == pytest.approx([each[name] for each in single])
    assert found.evaluation.metrics == found.concatenated
    assert found.protocol == TEST.protocol
    assert found.deviations["separated"] == dict.fromkeys(found.separated)


def test_every_opening_is_recorded_and_shown_as_the_nth(tmp_path):
    search = search_in(tmp_path, trials=1)
    first = search.open_test(TEST, k=1)
    assert first.opening == 1
    assert "opening 1" in str(first)
    with pytest.warns(UserWarning, match="opening 2 of the test classes, after 20"):
        second = search.open_test(TEST, k=1)
    assert second.opening == 2
    assert len(second.earlier) == 1
    assert "opening 2" in str(second)
    assert second.earlier[0] in str(second)
    assert second.concatenated == first.concatenated  # by the models of the folder
    kept = json.loads((tmp_path / "opening-0002.json").read_text())
    assert kept["concatenated"]["map@r"]["value"] == second.concatenated["map@r"].value
    assert kept["settings"] == search.settings
    assert kept["evaluation"]["protocol"] == TEST.protocol


def test_an_opening_is_recorded_before_the_test_set_is_read(tmp_path):
    search = search_in(tmp_path, trials=1)
    broken = LabeledSet(images=np.full((4, DIM), np.nan), labels=[0, 0, 1, 1], class_names=("x", "y"))
    with pytest.raises(ValueError, match="NaN"):
        search.open_test(broken, k=1)
    with pytest.warns(UserWarning, match="opening 2"):
        search.open_test(TEST, k=1)


def test_runs_have_seeds_of_their_own_and_a_deviation(tmp_path):
    search = search_in(tmp_path, trials=1)
    found = search.open_test(TEST, runs=3, k=1)
    assert len(found.models) == 6
    assert len({model["map@r"] for model in found.models}) > 3
    by_run = np.reshape([model["map@r"] for model in found.models], (3, 2)).mean(axis=1)
    assert found.deviations["separated"]["map@r"] == pytest.approx(by_run.std(ddof=1))
    assert "±" in str(found)


def test_a_test_class_in_the_training_set_is_refused_before_the_opening(tmp_path):
    search = search_in(tmp_path, trials=1)
    with pytest.raises(ValueError, match="class-10"):
        search.open_test(vectors(3, 40))
    with pytest.raises(ValueError, match="runs=0"):
        search.open_test(TEST, runs=0)
    assert not list(tmp_path.glob("opening*"))
    assert not list(tmp_path.glob("models*"))


TRIAL_VALUES = [None, True, -1, 10**400, float("nan"), "", [], [1], [None], {}, {"a": 1}, {"": None}]


def test_a_trial_of_any_other_value_is_read_or_is_an_error_that_names_its_file(tmp_path):
    search_in(tmp_path, trials=1)
    path, refused = tmp_path / "trial-0000.json", 0
    content = json.loads(path.read_text())
    variants = [changed(content, entry, value) for entry in paths(content) for value in TRIAL_VALUES]
    for text in [*map(json.dumps, variants), "{}", "[]", "{", "[" * 100_000]:
        path.write_text(text)
        message = refusal(lambda: cross_validation._study(read_trials(tmp_path)))
        assert "trial-0000.json" in message or not message
        refused += bool(message)
    assert refused > 100


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("opening-0001.json", text) for text in ("{}", '{"time": 1}', "[]", "[" * 100_000)),
        *(("search.json", text) for text in ("[]", "{", "[" * 100_000)),
    ],
)
def test_a_damaged_record_is_an_error_that_names_it(name, text, tmp_path):
    search_in(tmp_path, trials=1)
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name):
        search_in(tmp_path, trials=1).open_test(TEST, k=1)
    assert not (tmp_path / "opening-0002.json").exists()
