"""What a release states: its version in one place, extras that exist, archives without anything else."""

import ast
import configparser
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import tfdml
from tests.programs import without_extras
from tools import addresses, check_release, release_places

ROOT = Path(tfdml.__file__).parents[1]
SETUP = configparser.ConfigParser(inline_comment_prefixes=None)
SETUP.read(ROOT / "setup.cfg")
EXTRAS = set(SETUP["options.extras_require"]) - {"dev", "all"}


def asked_extras(file):
    """The extras that calls of `optional_import` in a module ask for."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "optional_import":
            extras = [each.value for each in node.keywords if each.arg == "extra"]
            yield from (extra.value for extra in extras if isinstance(extra, ast.Constant))


def named_extras(file):
    """The extras in commands of pip in the texts of a file."""
    for extras in re.findall(r"\btfdml\[([\w, ]+)\]", file.read_text()):
        yield from extras.replace(" ", "").split(",")


def test_every_extra_that_the_library_and_its_pages_name_is_in_setup_cfg():
    modules = list((ROOT / "tfdml").rglob("*.py"))
    recipes = [file for kind in ("md", "py") for file in (ROOT / "recipes").rglob(f"*.{kind}")]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *recipes]
    asked = {extra for file in modules for extra in asked_extras(file)}
    named = {extra for file in [*modules, *pages] if file.is_file() for extra in named_extras(file)}
    assert len(asked) > 10
    assert len(named) > 15
    assert (asked | named) - {"all", "extra"} <= EXTRAS  # "extra" stands in the message of optional_import


def test_the_page_of_installation_lists_each_extra():
    page = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, flags=re.MULTILINE)
    listed = [extra for row in rows for extra in re.findall(r"\w+", row)]
    assert sorted(listed) == sorted(EXTRAS | {"all"})


def test_the_lock_of_the_newest_python_pins_what_the_rooms_need():
    """`make smoke` installs it; a requirement that is new in setup.cfg has to be in it, too."""
    lines = SETUP["options"]["install_requires"].splitlines()
    for extra in ("tensorflow", "plots", "serving", "tables"):
        lines += SETUP["options.extras_require"][extra].splitlines()
    lines += (ROOT / "requirements" / "newest.in").read_text().splitlines()
    needed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    lock = (ROOT / "requirements" / "newest.lock").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", lock, flags=re.MULTILINE))
    assert len(needed) > 12
    assert [str(each) for each in needed if not each.specifier.contains(pinned.get(each.name, "0"))] == []


def test_the_program_without_extras_tries_each_extra_that_the_library_asks_for():
    program = re.sub(r"\s+", "", (ROOT / "tests" / "programs" / "without_extras.py").read_text())
    asked = {extra for file in (ROOT / "tfdml").rglob("*.py") for extra in asked_extras(file)}
    asked.remove("tensorflow")  # of another program: without_tensorflow.py
    assert [extra for extra in asked if f'("{extra}",lambda' not in program] == []


def needs_plots():
    raise ImportError("Needs matplotlib: pip install tfdml[plots].")


@pytest.mark.parametrize(
    ("extra", "call", "code"),
    [
        ("plots", needs_plots, 0),
        ("maps", needs_plots, "draw names ['plots'], expected maps: Needs matplotlib: pip install tfdml[plots]."),
        ("plots", lambda: None, "draw ran, expected an ImportError that names plots"),
    ],
)
def test_the_program_without_extras_ends_with_what_is_wrong(extra, call, code, monkeypatch):
    monkeypatch.setattr(without_extras, "network", lambda: None)
    monkeypatch.setattr(without_extras, "core", lambda model, folder: None)
    monkeypatch.setattr(without_extras, "calls", lambda model, folder: {"draw": (extra, call)})
    with pytest.raises(SystemExit) as end:
        without_extras.main()
    assert end.value.code == code


def test_the_version_is_in_one_place_and_the_others_follow():
    assert SETUP["metadata"]["version"] == "attr: tfdml.__version__"
    assert check_release.first(r"^version: (.+)$", ROOT / "CITATION.cff") == tfdml.__version__
    assert check_release.first(r"^## (\S+?),", ROOT / "CHANGELOG.md") == tfdml.__version__


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """A repository of one module and its archives: the wheel as it should be, and files to add to it."""
    (tmp_path / "tfdml").mkdir()
    (tmp_path / "tfdml" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    for name in check_release.SOURCES:
        (tmp_path / name).write_text("")
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3, 2026-01-02\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(check_release, "ROOT", tmp_path)

    def write(**more):
        (tmp_path / "dist").mkdir(exist_ok=True)
        wheel, source = tmp_path / "dist" / "tfdml-1.2.3-py3-none-any.whl", tmp_path / "dist" / "tfdml-1.2.3.tar.gz"
        info = "tfdml-1.2.3.dist-info"
        files = {name: (tmp_path / name).read_text() for name in ("tfdml/__init__.py",)}
        files |= {f"{info}/METADATA": "Version: 1.2.3\n", f"{info}/licenses/LICENSE": "", f"{info}/licenses/NOTICE": ""}
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in (files | more).items():
                archive.writestr(name, text)
        with tarfile.open(source, "w:gz") as archive:
            for name in sorted(check_release.tracked()):
                archive.add(tmp_path / name, f"tfdml-1.2.3/{name}")
        return wheel, source

    return write


def problems(wheel, source):
    stated = check_release.versions(check_release.ROOT, wheel, source)
    found = [check_release.wheel_problems(wheel), check_release.source_problems(source)]
    return [*found[0], *found[1], *check_release.version_problems(stated)]


def test_each_data_file_of_the_package_is_in_the_wheel():
    patterns = SETUP["options.package_data"]
    files = [path.relative_to(ROOT) for path in (ROOT / "tfdml").rglob("*.*") if path.suffix not in (".py", ".pyc")]
    kept = {
        path
        for path in files
        for package, words in patterns.items()
        for word in words.split()
        if path.match(f"{package.replace('.', '/')}/{word}")
    }
    assert len(files) > 10
    assert set(files) - kept == set()


def test_whole_archives_have_no_problems(archives):
    assert problems(*archives()) == []


def test_what_does_not_belong_into_a_wheel_is_named(archives):
    wheel, source = archives(**{"tests/test_a.py": "", "tfdml/../x": "", "tfdml/a.txt": str(check_release.ROOT)})
    listed = "\n".join(problems(wheel, source))
    assert "has tests/test_a.py, which git does not track there" in listed
    assert "has 'tfdml/../x', which is outside of it" in listed
    assert "has tfdml/a.txt, which names a folder of this machine" in listed


def test_a_description_that_links_into_the_repository_is_named(archives):
    metadata = "Version: 1.2.3\n\nSee [install](docs/install.md) and [a page](https://example.org/a.md).\n"
    listed = problems(*archives(**{"tfdml-1.2.3.dist-info/METADATA": metadata}))
    assert listed == ["the description of tfdml-1.2.3-py3-none-any.whl links to docs/install.md"]


PAGE = "![A map](docs/images/map.png) See [the map](docs/maps.md#all), [us](https://example.org), [below](#below)."


@pytest.mark.parametrize(
    ("repository", "page"),
    [
        ("", " See the map, [us](https://example.org), [below](#below)."),
        (
            "https://example.org/tfdml",
            "![A map](https://example.org/tfdml/raw/main/docs/images/map.png) See "
            "[the map](https://example.org/tfdml/blob/main/docs/maps.md#all), [us](https://example.org), "
            "[below](#below).",
        ),
    ],
)
def test_links_of_the_long_description_are_absolute_or_their_text(repository, page):
    assert addresses.long_description(PAGE, repository) == page
    assert addresses.relative_links(PAGE) == ["docs/images/map.png", "docs/maps.md#all"]
    assert addresses.relative_links(page) == []


def test_all_that_states_an_address_follows_from_one_setting(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.addresses]\nrepository = "https://example.org/tfdml/"\nsite = ""\n')
    found = addresses.addresses(tmp_path)
    assert found == {"repository": "https://example.org/tfdml", "site": ""}
    assert addresses.project_urls(**found) == {
        "Source": "https://example.org/tfdml",
        "Changelog": "https://example.org/tfdml/blob/main/CHANGELOG.md",
        "Issues": "https://example.org/tfdml/issues",
    }
    stated = re.findall(r"^repository-code: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert stated == [page for page in [addresses.addresses()["repository"]] if page]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_call_what_is_there(path):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    content = yaml.safe_load(path.read_text())
    steps = [step for job in content.get("jobs", {}).values() for step in job["steps"] if "run" in step]
    assert bool(steps) == (path.parent.name == "workflows")
    for word in (word for step in steps for word in step["run"].split()):
        assert "/" not in word or word.startswith(".venv/") or (ROOT / word).is_file()
    for step in steps:
        if step["run"].startswith("make "):
            assert set(step["run"].split()[1:]) <= set(targets)


def test_files_that_are_missing_and_versions_that_differ_are_named(archives):
    wheel, source = archives()
    (check_release.ROOT / "tfdml" / "more.css").write_text("")
    (check_release.ROOT / "CITATION.cff").write_text("version: 1.2.2\n")
    subprocess.run(["git", "add", "."], cwd=check_release.ROOT, check=True)
    listed = "\n".join(problems(wheel, source))
    assert f"{wheel.name} lacks tfdml/more.css" in listed
    assert f"{source.name} lacks tfdml/more.css" in listed
    assert "the versions differ" in listed
    assert "1.2.2 in CITATION.cff" in listed


def test_a_command_that_fails_is_described_by_its_last_lines(tmp_path, capsys):
    assert check_release.described([sys.executable, "-c", "print(7)"], tmp_path) == []
    assert capsys.readouterr().out == "7\n"
    (problem,) = check_release.described([sys.executable, "-c", "raise SystemExit('no such extra')"], tmp_path)
    assert problem.endswith("no such extra\n")


def test_what_git_ignores_in_docs_is_not_in_the_source_archive():
    ignored = re.findall(r"^/(docs/\S+)/$", (ROOT / ".gitignore").read_text(), flags=re.MULTILINE)
    pruned = re.findall(r"^prune (\S+)$", (ROOT / "MANIFEST.in").read_text(), flags=re.MULTILINE)
    assert ignored
    assert set(ignored) <= set(pruned)


def test_places_name_files_that_are_there_and_addresses_that_can_be_filled_in():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["addresses"]
    for place in release_places.PLACES:
        assert set(place.needs) <= set(settings), place.name
        assert all((ROOT / file).exists() for file in place.files), place.name
    assert (ROOT / release_places.TEXTS).exists()


def test_a_place_says_which_addresses_it_lacks():
    place = release_places.Place("shop", "send it", ("index", "site"))
    empty = release_places.missing({"index": "https://example.org", "site": ""}, [place])
    assert empty == {"shop": ["site"]}
    (line,) = release_places.lines({"index": "https://example.org", "site": ""}, [place])
    assert "needs site" in line
    (line,) = release_places.lines({"index": "https://example.org", "site": "https://example.org"}, [place])
    assert "ready" in line


def test_the_recipe_of_conda_has_the_version_and_the_ranges_of_setup_cfg():
    recipe = yaml.safe_load((ROOT / "tools" / "release" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == tfdml.__version__
    python, *needed = recipe["requirements"]["run"]
    required = SETUP["options"]["install_requires"]
    ranges = {Requirement(line).name.replace("_", "-"): Requirement(line).specifier for line in needed}
    stated = [Requirement(line) for line in required.splitlines() if line.strip() and not line.startswith("#")]
    assert ranges == {requirement.name: requirement.specifier for requirement in stated}
    assert python == f"python {SETUP['options']['python_requires']}"
