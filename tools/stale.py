"""Lists the measured numbers whose code has changed since they were measured.

    python tools/stale.py             # the list
    python tools/stale.py --record    # after a measurement: note the code of results that have changed, write the page

`results/measured.json` has for each file of results its hash, the day, and a digest of each room of `tfdml`
that its script names, and of each folder of `recipes` that it uses. Digests leave out docstrings, comments and layout.
A room that is gone counts as changed. `results/README.md` is the list for readers.
"""

import argparse
import ast
import datetime
import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("results")
MANIFEST = RESULTS / "measured.json"
PAGE = Path("results", "README.md")
ALL = "all"
TEXT = """# Where the numbers come from

Tables with measured numbers are filled by scripts from the files of this folder, and a test fails where they differ.
Each row has its hardware and versions. This page lists the files, the command of
[benchmarks](../benchmarks/README.md), [studies](../studies/README.md) or [recipes](../recipes/README.md) that measures
each again, and the day. `measured.json` has the rooms of `tfdml` whose code they were measured with, by digests;
`make stale` lists the files that were measured before a change to this code.

| results | command | measured |
| --- | --- | --- |
"""


def results(root):
    """Files of results, relative to their folder, in order."""
    files = (path for path in (root / RESULTS).rglob("*") if path.suffix in (".csv", ".json"))
    return sorted(str(path.relative_to(root / RESULTS)) for path in files if path.name != MANIFEST.name)


def sources(root, name):
    """The scripts that write a file of results: paths, the main one first."""
    rooms = ("studies", "benchmarks", "recipes")
    if "/" in name:
        folder = name.split("/")[0]
        paths = [path for room in rooms for path in (root / room / folder, root / room / f"{folder}.py")]
        return [script for path in paths for script in [path, *sorted(path.rglob("*.py"))] if script.is_file()]
    scripts = [path for room in rooms for path in sorted((root / room).glob("*.py"))]
    named = [path for path in scripts if name.startswith(path.stem)]
    if named:
        return [max(named, key=lambda path: len(path.stem))]
    return [next(path for path in scripts if f'"{name}"' in path.read_text())]


def command(root, name):
    """The command line that measures a file of results."""
    script = sources(root, name)[0].relative_to(root)
    if script.parts[0] == "recipes" and len(script.parts) > 2:
        return f"python -m recipes.{script.parts[1]}"
    if script.parts[0] != "studies":
        return f"python {script}"
    return f"python -m studies {script.parts[1]}" if len(script.parts) > 2 else f"python -m studies.{script.stem}"


def rooms_of(root, name):
    """Rooms of `tfdml` that the scripts of a file of results name, with the scripts that those call.

    `ALL` for scripts that name none, such as those that start programs.
    """
    scripts = sources(root, name)
    text = "\n".join(path.read_text() for path in scripts)
    called = re.findall(
        r"^\s*(?:import|from) (?!recipes)(\w+)|\b(_\w+)\.py|\brecipes[. ](?:import )?(\w+)", text, flags=re.MULTILINE
    )
    stems = set(sum(called, ())) - {""}
    paths = [folder / f"{stem}.py" for stem in stems for folder in (scripts[0].parent, root / "recipes")]
    paths += [path for stem in stems for path in (root / "recipes" / stem).rglob("*.py")]
    text += "\n".join(path.read_text() for path in paths if path.is_file())
    named = set(re.findall(r"\btfdml(?:\.| import )(\w+)", text))
    rooms = [room for room in named if (root / "tfdml" / room).is_dir() or (root / "tfdml" / f"{room}.py").exists()]
    folders = [f"recipes/{stem}" for stem in {*stems, name.split("/")[0]} if (root / "recipes" / stem).is_dir()]
    return [*sorted(rooms), *sorted(folders)] or [ALL]


def digest(root, room):
    """Digest of the code of a room or of a folder of recipes: 12 hexadecimal digits."""
    folder = root / room if "/" in room else root / "tfdml" / ("" if room == ALL else room)
    files = sorted(folder.rglob("*.py")) or [path for path in [folder.with_suffix(".py")] if path.is_file()]
    parts = [f"{path.relative_to(root)}\n{_code(path.read_text())}" for path in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _code(text):
    """A module without docstrings, comments and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def record(root, name, day):
    """What the manifest notes of a file of results."""
    code = {room: digest(root, room) for room in sorted(rooms_of(root, name))}
    return {"sha256": _hash(root, name), "measured": day, "code": code}


def _hash(root, name):
    return hashlib.sha256((root / RESULTS / name).read_bytes()).hexdigest()


def read_manifest(root):
    """The records by file; empty without a manifest."""
    return json.loads((root / MANIFEST).read_text()) if (root / MANIFEST).exists() else {}


def unrecorded(root, manifest):
    """Files of results that the manifest does not have as they are."""
    recorded = {name: entry["sha256"] for name, entry in manifest.items()}
    return [name for name in results(root) if recorded.get(name) != _hash(root, name)]


def changed_rooms(root, entry):
    """Rooms whose code is another one than the recorded code."""
    return [room for room, recorded in entry["code"].items() if digest(root, room) != recorded]


def page(root, manifest):
    """The text of `results/README.md`."""
    measured = {}
    for name in sorted(manifest):
        cells = f"`{command(root, name)}` | {manifest[name]['measured']} |"
        measured.setdefault(cells, []).append(f"`{name}`")
    return TEXT + "".join(f"| {', '.join(names)} | {cells}\n" for cells, names in measured.items())


def main():
    """List, or record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    manifest = read_manifest(ROOT)
    if options.record:
        today = datetime.date.today().isoformat()
        new = {name: record(ROOT, name, today) for name in unrecorded(ROOT, manifest)}
        manifest = {name: new.get(name) or manifest[name] for name in results(ROOT)}
        (ROOT / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
        (ROOT / PAGE).write_text(page(ROOT, manifest))
        print(f"recorded {len(new)} files of results")
    for name, entry in manifest.items():
        rooms = changed_rooms(ROOT, entry)
        if rooms:
            print(f"{name}, measured {entry['measured']}: {', '.join(rooms)} changed; {command(ROOT, name)}")


if __name__ == "__main__":
    main()
