"""The study of Fashion-MNIST: its parts, its choice, and its rows."""

import numpy as np
import pytest

import tfdml
from studies import fashion

PIXELS = np.arange(2000).reshape(-1, 1, 1, 1)
DATA = tfdml.datasets.LabeledSet(images=PIXELS, labels=np.arange(2000) % 10, class_names=fashion.NAMES)
NAMES = np.array(fashion.NAMES)


def classes(data):
    return set(np.array(data.class_names)[np.unique(data.labels)])


@pytest.mark.parametrize(("half", "members"), fashion.HALVES.items())
def test_settings_are_chosen_on_classes_that_are_neither_trained_nor_tested(half, members):
    trained, validation = fashion.parts(fashion.Run(half, "", (), 0.1), DATA, DATA)
    whole, test = fashion.parts(fashion.Run(half, "", (), 0.1, part="test"), DATA, DATA)
    assert classes(whole) == set(NAMES[list(members)]) == classes(trained) | classes(validation)
    assert not classes(trained) & classes(validation)
    assert classes(test) == set(NAMES) - classes(whole)
