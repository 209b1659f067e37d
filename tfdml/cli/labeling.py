"""`tfdml select` and `tfdml propose`: what to label next, and labels that are proposed."""

import argparse
import os
from dataclasses import replace
from pathlib import Path

from tfdml import cleaning, datasets, models
from tfdml._core.atomic import as_writable_path, atomic_write, require_replaceable
from tfdml._core.checks import counted, require
from tfdml._core.terminal import write_table
from tfdml.cleaning.label_page import selection_files
from tfdml.cli import inputs
from tfdml.cli.arguments import IMAGENET, is_table
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, as_records, as_usage_error, print_result, say_skipped
from tfdml.cli.references import Reference
from tfdml.datasets.readers.label_tables import read_labels
from tfdml.datasets.readers.table import PROPOSED
from tfdml.embedding.in_memory import embed_loadable
from tfdml.training.train import require_outside

_SIZE = 128  # of the images of the default network


def run_select(options: argparse.Namespace) -> int:
    """Print how many images were chosen by which rule; the page shows them."""
    with as_usage_error(f"--out {options.out}"):
        if Path(options.set).is_dir():
            require_outside(options.out, options.set)
        require_replaceable(options.out, selection_files)
    images, embeddings, skipped = _embedded(options, count=options.count)
    settings = {"labels": images.labels, "rule": options.rule, "similarity": options.similarity}
    with as_usage_error(f"SET={options.set!r}"):
        selection = cleaning.select(embeddings, options.count, **settings)
    cleaning.write_selection(selection, images, options.out, root=_root_of(options))
    page = str(Path(options.out) / "label.html")
    chosen = [{"path": str(images.paths[row]), "rule": rule} for row, rule in zip(*selection[:2], strict=True)]
    record = {"out": options.out, "selected": chosen, "skipped": as_records(skipped)}
    lines = [f"{counted(len(chosen), 'image')} to label", f"{page} has a field for each"]
    print_result(options, record, lines)
    return EXIT_FAILED if skipped else EXIT_OK


def run_propose(options: argparse.Namespace) -> int:
    """Print how many labels are proposed; the table has them."""
    with as_usage_error(f"--out {options.out}"):
        require(options.out.endswith(".csv"), f"{options.out!r}", "the name of a .csv file")
        require(not as_writable_path(options.out).exists(), "a file that is there", "a new one: nothing is replaced")
    images, embeddings, skipped = _embedded(options)
    with as_usage_error(f"SET={options.set!r}"):
        proposals = cleaning.propose_labels(embeddings, images.labels, precision=options.precision)
    names = [os.path.relpath(path, _root_of(options)) for path in images.paths]
    rows = zip(*(column.tolist() for column in proposals), strict=True)
    lines = [
        (names[row], images.class_names[label], round(probability, 4), round(cosine, 4), names[neighbor])
        for row, label, neighbor, cosine, probability in rows
    ]
    with atomic_write(options.out) as new:
        write_table(new, [PROPOSED, *lines])
    without = int((images.labels < 0).sum())
    record = {"out": options.out, "proposals": len(lines), "unlabeled": without}
    text = f"{options.out}: {len(lines):,} labels proposed for {counted(without, 'image')} without one"
    print_result(options, record | {"skipped": as_records(skipped)}, [text])
    return EXIT_FAILED if skipped else EXIT_OK


def _embedded(options, count=0):
    """The images of a set that can be read with the labels that they have, their embeddings, and the others."""
    view = datasets.Preprocessing(size=_SIZE)
    images = inputs.open_set(options, view)
    with as_usage_error(f"SET={options.set!r}"):
        require(images.paths is not None, "a set without files", "image files: a folder or a table")
    if options.labels is not None:
        with as_usage_error(f"--labels {options.labels}"):
            labels, names = read_labels(options.labels, images, root=_root_of(options))
            images = replace(images, labels=labels, class_names=names)
    with as_usage_error(f"SET={options.set!r}"):
        without = int((images.labels < 0).sum())
        require(count <= without, f"-n {count} of {counted(without, 'image')} without a label", "fewer, or more images")
    if options.model == IMAGENET:
        model = models.from_backbone("EfficientNetLite0", input_shape=(_SIZE, _SIZE, 3), dim=None, normalize=False)
    else:
        model, view = Reference(options.model, options.preprocessing).model()
        images = replace(images, load=replace(view, boxes=True) if options.box_columns else view)
    embeddings, rows, skipped = embed_loadable(model, images, options.batch_size)
    say_skipped(skipped)
    return images.take(rows), embeddings, skipped


def _root_of(options):
    """The folder to which the paths of a set are relative: its own, or the folder of its table."""
    return Path(options.set).parent if is_table(options.set) else Path(options.set)
