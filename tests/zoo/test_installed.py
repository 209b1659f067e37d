"""Entries of installed packages."""

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest

from tests.zoo.cards import write_entry
from tfdml import cli, zoo
from tfdml.zoo.entries import EntryRef, load_reference
from tfdml.zoo.index import write_table

ROOT = Path(__file__).parents[2]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Function that installs a distribution with an entry point for a package, whose folder it returns."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.chdir(tmp_path)

    def installed(distribution, package):
        metadata = site / f"{distribution.replace('-', '_')}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[tfdml.zoo]\nmodels = {package}\n")
        return site / package

    return installed


def test_entries_of_an_installed_package_are_listed_in_an_empty_folder(install, capsys):
    folder = install("models-a", "models_a")
    write_entry(folder, "squares")
    write_entry(folder, "circles")
    assert zoo.list_models().names == ("circles", "squares")
    assert zoo.card("squares").seed == 3
    assert zoo.check("squares") == ()
    assert cli.main(["zoo", "list"]) == 0
    assert capsys.readouterr().out == f"{zoo.list_models()}\n"
    assert cli.main(["zoo", "check"]) == 0
    assert "models_a" not in sys.modules


def test_the_folder_savedmodels_comes_before_installed_packages_and_root_is_alone(install, tmp_path):
    folder = install("models-a", "models_a")
    for name in ("circles", "squares"):
        write_entry(folder, name, seed=1)
    write_entry(tmp_path / "savedmodels", "squares", seed=2)
    assert {card.name: card.seed for card in zoo.list_models().cards} == {"circles": 1, "squares": 2}
    assert (zoo.card("squares").seed, zoo.card("circles").seed) == (2, 1)
    assert zoo.card("squares", root=folder).seed == 1
    assert zoo.list_models("savedmodels").names == ("squares",)
    with pytest.raises(ValueError, match="name='circles', expected an entry in 'savedmodels': squares"):
        zoo.card("circles", root="savedmodels")
    assert "circles" not in write_table().read_text()


def test_an_entry_of_two_packages_is_refused_and_named_in_the_list(install, capsys):
    first, second = install("models-a", "models_a"), install("models-b", "models_b")
    write_entry(first, "squares", seed=1)
    write_entry(second, "squares", seed=2)
    write_entry(second, "circles")
    for read in (zoo.load, zoo.card, zoo.check, lambda name: EntryRef.parse(name).folder()):
        with pytest.raises(ValueError, match=r"an entry in '.*models_a' and '.*models_b', expected one of them.*root="):
            read("squares")
    found = zoo.list_models()
    assert found.names == ("circles",)
    assert [name for name, _ in found.unreadable] == ["squares"]
    assert zoo.card("squares", root=second).seed == 2
    assert cli.main(["zoo", "check"]) == 1
    assert capsys.readouterr().out.startswith("circles: whole\nsquares: Received name='squares', an entry in ")


def test_two_distributions_with_one_package_are_one_place(install):
    folder = install("models-a", "models_a")
    install("models-b", "models_a")
    write_entry(folder, "squares")
    assert zoo.list_models().names == ("squares",)
    assert zoo.card("squares").seed == 3


def test_an_entry_point_without_its_package_is_a_warning(install):
    write_entry(install("models-a", "models_a"), "squares")
    install("gone", "no_such_package")
    install("nested", "email.mime")
    with pytest.warns(UserWarning, match="left out: its entry point names") as warned:
        assert zoo.list_models().names == ("squares",)
    assert len(warned) == 2
    assert str(warned[0].message).endswith("'no_such_package', which is not an installed package. Install gone again.")


def test_without_folder_and_package_an_error_says_what_to_do(install):
    for read in (zoo.list_models, lambda: zoo.load("squares")):
        with pytest.raises(ValueError, match=r"Install a package with models, such as tfdml-zoo, or pass root="):
            read()
    assert not EntryRef.parse("squares").exists()


def test_a_name_of_the_command_line_is_an_entry_unless_a_folder_of_this_name_exists(install, tmp_path):
    shutil.copytree(ROOT / "savedmodels" / "glyphs-2d", install("models-a", "models_a") / "glyphs-2d")
    assert load_reference(EntryRef.parse("glyphs-2d"))[0].output_shape == (None, 2)
    (tmp_path / "glyphs-2d" / "1").mkdir(parents=True)
    assert not EntryRef.parse("glyphs-2d").exists()


LOADED = """
import sys
import numpy as np
import tfdml
from tfdml import cli

assert tfdml.__file__.startswith(sys.prefix), tfdml.__file__
model = tfdml.zoo.load("glyphs-2d")
np.save("embeddings.npy", model.predict_on_batch(np.load("images.npy")))
assert tfdml.zoo.list_models().names == ("glyphs-2d", "glyphs-small")
assert tfdml.zoo.check("glyphs-small") == ()
sys.exit(cli.main(["zoo", "list"]))
"""


@pytest.mark.nightly  # builds and installs two wheels; tests/test_release.py looks at the files of one
def test_wheels_of_tfdml_and_of_its_zoo_load_a_model_in_an_empty_folder(tmp_path, monkeypatch):
    """An environment with the libraries of this one, without its tfdml."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "tfdml", source / "tfdml", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "setup.py"):
        shutil.copy(ROOT / name, source)
    (source / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "addresses.py", source / "tools")
    wheels, empty = tmp_path / "wheels", tmp_path / "empty"
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", wheels, source, cwd=tmp_path)
    build_wheel(monkeypatch, "glyphs-2d", "glyphs-small", "--output", str(wheels))

    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": environment, "platbase": environment}))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    python = environment / "bin" / "python"
    options = ["--python", python, "install", "--no-deps", "--no-index", "--quiet"]
    run(sys.executable, "-m", "pip", *options, *sorted(wheels.glob("*.whl")), cwd=tmp_path)

    empty.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 1)).astype("uint8")
    np.save(empty / "images.npy", images)
    printed = run(python, "-c", LOADED, cwd=empty)
    assert [line.split()[0] for line in printed.splitlines()] == ["model", "glyphs-2d", "glyphs-small"]
    expected = zoo.load("glyphs-2d", root=ROOT / "savedmodels").predict_on_batch(images)
    np.testing.assert_allclose(np.load(empty / "embeddings.npy"), expected, atol=1e-5)


def build_wheel(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["zoo_wheel.py", *words])
    runpy.run_path(str(ROOT / "tools" / "zoo_wheel.py"), run_name="__main__")


def test_a_damaged_entry_is_not_packed(tmp_path, monkeypatch):
    (write_entry(tmp_path, "squares") / "more.txt").write_text("not listed")
    with pytest.raises(SystemExit, match=r"squares is not packed: more\.txt: not in SHA256SUMS"):
        build_wheel(monkeypatch, "--root", str(tmp_path), "--output", str(tmp_path / "wheels"))
    assert not (tmp_path / "wheels").exists()


def run(*words, cwd):
    """The output of a program that does not find tfdml through the environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
