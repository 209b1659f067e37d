"""The loss of a pair over its distance: the curves of the papers' figures, from their equations."""

import numpy as np

from tfdml import analysis, layers, losses
from tfdml.analysis.loss_over_distance import loss_over_distance

D = np.linspace(0.0, 2.0, 9)


def curves(loss):
    found = loss_over_distance(loss, D)
    np.testing.assert_array_equal(found.distances, D)
    return found.positive, found.negative


def expect(loss, positive, negative):
    for ours, expected in zip(curves(loss), (positive, negative), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_contrastive_and_margin_curves_are_those_of_the_equations():
    expect(losses.ContrastiveLoss(negative_margin=1.0), D**2, np.maximum(0, 1 - D) ** 2)
    expect(losses.MarginLoss(margin=0.2, boundary=1.2), np.maximum(0, D - 1), np.maximum(0, 1.4 - D))
    s = 1 - D**2 / 2
    expect(losses.CosineContrastiveLoss(threshold=0.5), -s, np.maximum(0, s - 0.5))


def test_triplet_curves_hold_the_other_pair_at_distance_1():
    loss = losses.TripletLoss(margin=0.2, distance="euclidean", normalize="active")
    expect(loss, np.maximum(0, D - 0.8), np.maximum(0, 1.2 - D))


def test_a_loss_over_proxies_needs_none():
    s, one = 1 - D**2 / 2, 0.5
    expected = [np.log1p(np.exp(4 * (one - s))), np.log1p(np.exp(4 * (s - one)))]
    expect(losses.NormalizedSoftmaxLoss(pairing=layers.Proxies(2), scale=4.0), *expected)


def test_the_figure_has_a_panel_and_two_curves_for_each_loss():
    figure = analysis.plot_loss_over_distance({"one": losses.ContrastiveLoss(), "two": losses.MarginLoss()})
    assert [panel.get_title() for panel in figure.axes] == ["one", "two"]
    for panel in figure.axes:
        assert [len(line.get_xdata()) for line in panel.lines] == [81, 81]
