"""A plain loop of PyTorch: gradients, parameters, `torch.compile`, batch samplers, and what is imported."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.backend import BACKEND, numbers
from tfdml import layers, losses, samplers
from tfdml.pairs import all_pairs, euclidean

pytestmark = [
    pytest.mark.backends,
    pytest.mark.everywhere,
    pytest.mark.skipif(BACKEND != "torch", reason="a loop of PyTorch"),
]

LABELS = np.repeat(np.arange(6), 4)
X = np.random.default_rng(0).standard_normal((24, 5)).astype("float32")


def tensors():
    import torch

    return torch.tensor(LABELS), torch.tensor(X, requires_grad=True)


def test_a_loop_of_torch_trains_the_network_and_the_proxies():
    import torch

    keras.utils.set_random_seed(0)
    torch.manual_seed(0)
    labels, x = tensors()
    network = torch.nn.Linear(5, 3)
    loss = losses.CosFaceLoss(classes=6, scale=8.0)
    parameters = loss.parameters(dim=3)
    assert [tuple(p.shape) for p in parameters] == [(6, 3)]
    before = numbers(parameters[0]).copy()
    optimizer = torch.optim.Adam([*network.parameters(), *parameters], lr=0.05)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        value = loss(labels, network(x.detach()))
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < values[0] / 2
    assert np.abs(numbers(loss.proxies.vectors) - before).min() > 0


def test_what_a_loss_learns_is_a_list_of_parameters_of_torch():
    import torch

    assert losses.ContrastiveLoss().parameters() == []
    boundary = losses.MarginLoss(boundary=layers.Boundaries(class_ids=LABELS)).parameters()
    assert boundary
    assert all(isinstance(p, torch.nn.Parameter) and p.requires_grad for p in boundary)
    with pytest.raises(ValueError, match="Received no dim for layers that are not built, expected dim="):
        losses.CosFaceLoss(classes=6).parameters()


def results(function):
    """The loss and its gradient."""
    labels, x = tensors()
    value = function(labels, x)
    value.backward()
    return numbers(value), numbers(x.grad)


def compiled(loss, *, fullgraph):
    import torch

    torch._dynamo.reset()
    return torch.compile(lambda labels, x: loss(labels, x), fullgraph=fullgraph, backend="aot_eager")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*lru_cache")
@pytest.mark.parametrize(
    "loss",
    [
        losses.ContrastiveLoss(),
        losses.NTXentLoss(),
        losses.MultiSimilarityLoss(),
        losses.FastAPLoss(),
        losses.HistogramLoss(bins=40),
        losses.TripletLoss(margin=1.0),  # visits positives one after another, in a loop inside the graph
    ],
    ids=lambda loss: loss.name,
)
def test_losses_compile_without_graph_breaks_to_the_same_value_and_gradient(loss):
    for ours, theirs in zip(results(loss), results(compiled(loss, fullgraph=True)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*lru_cache")
def test_a_loss_in_blocks_is_not_compiled_and_keeps_its_value_and_gradient():
    import torch

    loss = losses.MultiSimilarityLoss(anchors_per_block=8)
    for ours, theirs in zip(results(loss), results(compiled(loss, fullgraph=False)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="losses in blocks are not compiled"):
        compiled(loss, fullgraph=True)(*tensors())


@pytest.mark.slow
def test_near_rows_are_recomputed_in_compiled_functions_too():
    import torch

    torch._dynamo.reset()
    labels, x = tensors()
    x = (300.0 + x).detach()
    x[1] = x[0] + 1e-3
    compiled = torch.compile(lambda x: euclidean(all_pairs(labels, x)), fullgraph=True, backend="eager")
    exact = np.linalg.norm(numbers(x)[0].astype("float64") - numbers(x)[1])
    np.testing.assert_allclose(numbers(compiled(x))[0, 1], exact, rtol=1e-3)


@pytest.mark.slow
def test_import_leaves_tensorflow_out_until_something_needs_it():
    program = (
        "import sys, torch, tfdml\n"
        "x = torch.randn(8, 3, requires_grad=True)\n"
        "tfdml.losses.TripletLoss()(torch.arange(8) // 2, x).backward()\n"
        "print('tensorflow' in sys.modules)\n"
        "tfdml.samplers\n"
        "print('tensorflow' in sys.modules)\n"
    )
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_sampler_is_a_batch_sampler_of_a_data_loader_that_resumes():
    import torch

    sampler = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2, seed=0)
    batches = samplers.torch_batches(sampler, LABELS, batches=4)
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(LABELS))
    loader = torch.utils.data.DataLoader(data, batch_sampler=batches)
    assert len(loader) == 4
    seen = [numbers(x) for _ in range(2) for x, _ in loader]
    expected = X[sampler.index_batches(LABELS)[:8]]
    np.testing.assert_array_equal(seen, expected)
    assert batches.start == 8
    (resumed, *_) = samplers.torch_batches(sampler, LABELS, batches=4, start=5)
    np.testing.assert_array_equal(X[resumed], expected[5])


def test_batch_samplers_refuse_what_they_cannot_draw_before_the_first_epoch():
    sampler = samplers.GroupSampler(classes_per_batch=3, examples_per_class=2)
    with pytest.raises(ValueError, match="Received batches=0, expected a whole number of at least 1"):
        samplers.torch_batches(sampler, LABELS, batches=0)
    with pytest.raises(ValueError, match="Received start=-1"):
        samplers.torch_batches(sampler, LABELS, batches=1, start=-1)
