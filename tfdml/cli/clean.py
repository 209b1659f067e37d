"""`tfdml clean`."""

import argparse
from pathlib import Path

import numpy as np

from tfdml import cleaning, datasets
from tfdml._core.atomic import require_replaceable
from tfdml._core.checks import require
from tfdml.cleaning.clean import remove_cache
from tfdml.cleaning.findings import listed_files
from tfdml.cli import inputs
from tfdml.cli.options.clean import IMAGENET
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, print_result, table_lines
from tfdml.datasets.readers.image_folder import EXTENSIONS
from tfdml.training.train import require_outside

_SPLITS = ("train", "validation", "val", "test", "query", "gallery")


def run(options: argparse.Namespace) -> int:
    """List near-duplicates, leaks, label suspects and outliers; nothing is deleted. OUT.unfinished has embeddings."""
    with inputs.as_usage_error(f"--out {options.out}"):
        for folder in options.folders:
            require_outside(options.out, folder)
        require_replaceable(options.out, listed_files)
    with inputs.as_usage_error(f"FOLDER={' '.join(options.folders)!r}"):
        listed = [each for folder in options.folders for each in _split_folders(Path(folder))]
    model, preprocessing = _open_model(options)
    with inputs.as_usage_error(f"FOLDER={' '.join(options.folders)!r}"):
        sets = {str(folder): _read(folder, preprocessing) for folder in listed}
    cache = f"{Path(options.out)}.unfinished"
    findings = cleaning.clean(
        model,
        sets,
        similarity=options.similarity,
        precision=options.precision,
        verify=not options.no_verify,
        batch_size=options.batch_size,
        cache=cache,
    )
    cleaning.write_report(findings, options.out)
    remove_cache(cache)
    counts = [finding._asdict() for finding in findings.listed]
    record = {"out": options.out, "similarity": findings.similarity, "images": findings.images, "findings": counts}
    print_result(options, record, [*table_lines(findings), f"{options.out}/report.html shows them"])
    return EXIT_FAILED if findings.listed else EXIT_OK


def _open_model(options):
    if options.model != IMAGENET:
        return inputs.open_model(options.model, options.preprocessing)
    size = 96
    return cleaning.copy_network(size), datasets.Preprocessing(size=size)


def _split_folders(folder):
    """The folders of the splits in a folder, or the folder itself."""
    require(folder.is_dir(), f"{str(folder)!r}, which is not a folder", "a folder of images")
    splits = [folder / name for name in _SPLITS if (folder / name).is_dir()]
    return splits if len(splits) > 1 else [folder]


def _read(folder, load):
    """The set of a folder with one subfolder per class, or of the images in a folder, in one class."""
    if any(child.is_dir() and not child.name.startswith(".") for child in folder.iterdir()):
        return datasets.folder(folder, load=load)
    paths = [str(file) for file in sorted(folder.iterdir()) if file.suffix.lower() in EXTENSIONS]
    require(len(paths) > 0, f"{str(folder)!r} without images", f"images ({', '.join(EXTENSIONS)})")
    labels = np.zeros(len(paths), np.int64)
    return datasets.LabeledSet(paths=np.array(paths), labels=labels, class_names=("",), load=load)
