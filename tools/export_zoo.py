"""Writes the SavedModels of entries of the zoo again, as tfdml.export writes them now.

    python tools/export_zoo.py                    # all entries of savedmodels
    python tools/export_zoo.py glyphs-small       # some of them
    python tools/export_zoo.py --pages            # only the pages, README.md, and the checksums
    python tools/export_zoo.py --fingerprints     # only the fingerprints of the exports, and the checksums
    python tools/export_zoo.py --numbers          # only the metrics of the cards, measured again, and their pages

The weights, `model.keras`, stay as they are, and so do the numbers of a card, but with `--numbers`. Only the sizes
of the files and the time per image, on this computer, are new; then its page, the checksums and the table of the folder
are written.
"""

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import tfdml
from recipes.things import things
from tfdml._core.atomic import atomic_write
from tfdml._core.checksums import fingerprint, listed_files, write_checksums
from tfdml.export.saved_model import CHECKSUMS, FINGERPRINT
from tfdml.zoo.card import write_card, write_page
from tfdml.zoo.entries import MODEL, opened
from tfdml.zoo.index import write_table
from tfdml.zoo.paths import names_in
from tfdml.zoo.publishing import entries_of_numbers, file_sizes, networks, query_network, write_saved_models
from tfdml.zoo.reproduction import measure, time_per_image
from tfdml.zoo.sets import SETS

ROOT = Path(__file__).parents[1]


def main():
    """Export the entries that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="entries; none for all")
    parser.add_argument("--root", type=Path, default=ROOT / "savedmodels", help="folder of entries")
    parser.add_argument("--pages", action="store_true", help="write only the pages of the cards, and the checksums")
    parser.add_argument("--fingerprints", action="store_true", help="write only fingerprints, and the checksums")
    parser.add_argument("--numbers", action="store_true", help="measure the models of the sets of the package again")
    options = parser.parse_args()
    writers = {"pages": write_page_again, "fingerprints": write_fingerprints_again, "numbers": write_numbers_again}
    write = next((writer for name, writer in writers.items() if getattr(options, name)), export)
    for name in options.names or names_in(options.root):
        write(options.root / name)
        print(f"{name}: {tfdml.zoo.check(name, root=options.root) or 'whole'}", flush=True)
    write_table(options.root)


def export(entry):
    """Replace an entry, whose checksums are compared first, by one with the same weights and newly written graphs."""
    model, card = opened(entry)
    with atomic_write(entry, listed_files) as new:
        new.mkdir()
        write_saved_models(new, model, card.preprocessing)
        shutil.copyfile(entry / MODEL, new / MODEL)
        write_card(new, replace(card, sizes=file_sizes(new), timing=time_per_image(query_network(model))))
        write_checksums(new)


def write_page_again(entry):
    """Replace the page of an entry, whose checksums are compared first, by one that is written from its card."""
    card = tfdml.zoo.card(entry.name, root=entry.parent)
    with atomic_write(entry, listed_files) as new:
        shutil.copytree(entry, new)
        write_page(new, card)
        write_checksums(new)


def write_numbers_again(entry):
    """Replace the metrics of an entry, whose checksums are compared first, by those that tfdml measures now."""
    model, card = opened(entry)
    sets = SETS[card.data]() if card.data in SETS else (things(("test",))[0], None)
    numbers = entries_of_numbers(measure(model, *sets, card.metric), "model", card.data, card.metric)
    with atomic_write(entry, listed_files) as new:
        shutil.copytree(entry, new)
        write_card(new, replace(card, **numbers, **tfdml.environment()))
        write_checksums(new)


def write_fingerprints_again(entry):
    """Replace the fingerprints of an entry, whose checksums are compared first, by those that tfdml computes now."""
    model, card = opened(entry)
    with atomic_write(entry, listed_files) as new:
        shutil.copytree(entry, new)
        for version, network in networks(model).items():
            text = json.dumps(fingerprint(network, card.preprocessing), indent=1)
            (new / version / "assets.extra" / FINGERPRINT).write_text(text)
            write_checksums(new / version, CHECKSUMS)
        write_checksums(new)


if __name__ == "__main__":
    main()
