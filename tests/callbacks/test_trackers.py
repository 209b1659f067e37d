"""Metrics of an epoch arrive in Weights & Biases and in MLflow by their own callbacks, without a network."""

import json
import struct

import keras
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.callbacks.small import LABELS, X, fit, make
from tfdml import callbacks

NAMES = ("recall_at_1", "recall_at_2", "precision_at_1", "map_at_r", "r_precision", "map", "mrr")
KEYS = {f"val_{name}" for name in NAMES}


def history_of_a_run(*after, at_sign="_at_", epochs=1, **options):
    evaluation = callbacks.RetrievalEvaluation((X, LABELS), k=(1, 2), every=5, at_sign=at_sign, **options)
    return fit(make(), evaluation, *after, epochs=epochs)


def test_names_without_the_at_sign_reach_the_history_and_later_callbacks():
    stopping = keras.callbacks.EarlyStopping(monitor="val_map_at_r", mode="max")
    history = history_of_a_run(stopping, metrics=lambda *_: {"a@1": 1.0, "b": 2.0})
    assert set(history) == {*KEYS, "val_a_at_1", "val_b", "loss"}
    assert stopping.best == history["val_map_at_r"][0]


@pytest.fixture
def tracked(tmp_path, monkeypatch):
    """Function that trains with both trackers: the history, and the values by name that each of them stored."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    import mlflow
    import wandb
    from wandb.integration.keras import WandbMetricsLogger

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")

    def train(at_sign):
        quiet = {"silent": True, "console": "off"}
        with wandb.init(project="test", dir=tmp_path, settings=quiet), mlflow.start_run() as run:
            trackers = (keras.callbacks.TensorBoard("logs"), WandbMetricsLogger(), mlflow.keras.MlflowCallback())
            history = history_of_a_run(*trackers, at_sign=at_sign, epochs=3)
        wandb.teardown()  # waits for what is written after a run
        (file,) = tmp_path.glob("wandb/latest-run/*.wandb")
        return history, mlflow_values(mlflow, run.info.run_id), wandb_values(file)

    yield train
    mlflow.set_tracking_uri(None)


def mlflow_values(mlflow, run_id):
    """Values by metric and epoch."""
    mlflow.flush_async_logging()
    client = mlflow.MlflowClient()
    points = {name: client.get_metric_history(run_id, name) for name in client.get_run(run_id).data.metrics}
    return {name: {point.step: point.value for point in series} for name, series in points.items()}


def wandb_values(file):
    """Values by metric, from the history records of an offline run.

    The file is a log of LevelDB: 7 bytes, then blocks of 32 KiB. A record is a checksum, a length, a type, which is 1
    for a whole record, and its bytes.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    content, position, values = file.read_bytes(), 7, {}
    assert len(content) < 2**15
    while position < len(content):
        length, record_type = struct.unpack_from("<HB", content, position + 4)
        assert record_type == 1
        record = Record.FromString(content[position + 7 : position + 7 + length])
        for item in record.history.item:
            values.setdefault("/".join(item.nested_key), []).append(json.loads(item.value_json))
        position += 7 + length
    return values


@pytest.mark.slow
def test_the_metrics_of_each_epoch_arrive_in_both_trackers_and_mlflow_drops_them_with_an_at_sign(tracked):
    history, in_mlflow, in_wandb = tracked("_at_")
    assert set(history) == {*KEYS, "loss"}
    epochs = {name: (0, 2) if name in KEYS else (0, 1, 2) for name in history}
    assert in_mlflow == {name: dict(zip(epochs[name], history[name], strict=True)) for name in history}
    assert {name: in_wandb[f"epoch/{name}"] for name in history} == history
    assert in_wandb["epoch/epoch"] == [0, 1, 2]

    history, in_mlflow, in_wandb = tracked("@")
    assert in_mlflow == {"loss": {1: history["loss"][1]}}  # of the epoch without an evaluation
    assert {name: in_wandb[f"epoch/{name}"] for name in history} == history
    assert "val_recall@1" in history
    events = EventAccumulator("logs/validation").Reload()
    assert [event.step for event in events.Tensors("epoch_recall@1")] == [0, 2]
