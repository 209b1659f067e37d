"""A residual network of one block for all runs of the room: what is tested is the run."""

from functools import partial

import pytest

from tfdml.training import network


@pytest.fixture(scope="package", autouse=True)
def small_residual_network():
    """Three convolutions in place of twelve."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "residual_cnn", partial(network.residual_cnn, widths=(4,)))
        yield
