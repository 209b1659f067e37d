"""Versions for reports, also of builds whose distributions have another name or none."""

import importlib.metadata

import keras
import pytest
import tensorflow as tf

import tfdml


def test_versions_are_those_of_the_imported_packages_also_without_their_distributions(monkeypatch):
    def not_installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", not_installed)  # as beside keras-nightly, or without an install
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **_: iter(()))
    versions = tfdml.environment()["versions"].split(", ")
    assert versions[1:4] == [
        f"tfdml {tfdml.__version__}", f"tensorflow {tf.__version__}", f"keras {keras.__version__}"
    ]  # fmt: skip
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        tfdml.environment("a-package-of-no-one")
