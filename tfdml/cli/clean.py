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
from tfdml.cli.options import MODEL, declare_preprocessing, positive_number
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, print_result, table_lines
from tfdml.datasets.readers.image_folder import EXTENSIONS
from tfdml.training.train import require_outside

_SPLITS = ("train", "validation", "val", "test", "query", "gallery")
_IMAGENET = "imagenet"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    text = "a folder of images, of one subfolder per class, or of the folders train, validation and test with those"
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help=f"{text}; of several, leaks are searched, too")
    parser.add_argument("--out", required=True, metavar="OUT", help="folder to write: findings.csv and report.html")
    text = f"{MODEL} (default: {_IMAGENET}, the first blocks of EfficientNet-Lite0)"
    parser.add_argument("--model", default=_IMAGENET, metavar="MODEL", help=text)
    text = "cosine similarity of near-duplicates (default: calibrated on copies of the images)"
    parser.add_argument("--similarity", type=positive_number, metavar="X", help=text)
    text = "of the pairs of known copies, for the calibration (default: 0.99)"
    parser.add_argument("--precision", type=positive_number, default=0.99, metavar="X", help=text)
    text = "take images for near-duplicates by their similarity alone, without a comparison of their pixels"
    parser.add_argument("--no-verify", action="store_true", help=text)
    declare_preprocessing(parser, batch_size=64)


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
    if options.model != _IMAGENET:
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
