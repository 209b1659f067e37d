"""`tfdml clean`."""

import argparse
from pathlib import Path

import numpy as np

from tfdml import cleaning, datasets
from tfdml._core.atomic import only_writer, require_replaceable
from tfdml._core.checks import require
from tfdml.cleaning.clean import remove_cache
from tfdml.cleaning.findings import listed_files
from tfdml.cli import inputs
from tfdml.cli.options.clean import IMAGENET
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, print_result, table_lines
from tfdml.datasets.readers.image_folder import EXTENSIONS
from tfdml.training.train import require_outside

_SPLITS = ("train", "training", "validation", "valid", "val", "dev", "test", "testing", "query", "gallery")


def run(options: argparse.Namespace) -> int:
    """List near-duplicates, leaks, label suspects and outliers; nothing is deleted. OUT.unfinished has embeddings."""
    with inputs.as_usage_error(f"--out {options.out}"):
        for folder in options.folders:
            require_outside(options.out, folder)
        require_replaceable(options.out, listed_files)
    with inputs.as_usage_error(f"FOLDER={' '.join(options.folders)!r}"):
        listed = [each for folder in options.folders for each in _parts(Path(folder))]
    model, preprocessing = _open_model(options)
    with inputs.as_usage_error(f"FOLDER={' '.join(options.folders)!r}"):
        sets = {str(folder): _read(folder, preprocessing) for folder in listed}
    with only_writer(options.out, "out"):
        findings = _findings(options, model, sets)
    counts = [finding._asdict() for finding in findings.listed]
    record = {"out": options.out, "similarity": findings.similarity, "images": findings.images, "findings": counts}
    print_result(options, record, [*table_lines(findings), f"{options.out}/report.html shows them"])
    return EXIT_FAILED if findings.listed else EXIT_OK


def _findings(options, model, sets):
    """The findings, which are written to OUT; an interrupted call resumes from OUT.unfinished, which is removed."""
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
    return findings


def _open_model(options):
    if options.model != IMAGENET:
        return inputs.open_model(options.model, options.preprocessing)
    size = 96
    return cleaning.copy_network(size), datasets.Preprocessing(size=size)


def _parts(folder):
    """The parts of a folder, which are all of its folders once it has splits; else the folder itself."""
    require(folder.is_dir(), f"{str(folder)!r}, which is not a folder", "a folder of images")
    children = _subfolders(folder)
    splits = [child for child in children if child.name.casefold() in _SPLITS]
    if len(splits) < 2 and not any(map(_subfolders, splits)):  # a class may be called "train"
        return [folder]
    _require_no_images_beside(folder)
    return sorted(children, key=_order)


def _order(folder):
    """The known splits in their order, then the others."""
    name = folder.name.casefold()
    return _SPLITS.index(name) if name in _SPLITS else len(_SPLITS)


def _subfolders(folder):
    return [child for child in _visible(folder) if child.is_dir()]


def _images(folder):
    """The image files in a folder itself."""
    return [child for child in _visible(folder) if child.is_file() and child.suffix.lower() in EXTENSIONS]


def _visible(folder):
    return sorted(child for child in folder.iterdir() if not child.name.startswith("."))


def _require_no_images_beside(folder):
    """Refuse images beside folders of images, since they would be left out."""
    names = [str(image) for image in _images(folder)]
    received = f"{str(folder)!r} with {len(names):,} images beside its folders, such as {names[:1]}"
    require(not names, received, "images in its folders only. Move them into a folder")


def _read(folder, load):
    """The set of a folder with one subfolder per class, or of the images in a folder, in one class."""
    if _subfolders(folder):
        _require_no_images_beside(folder)
        images = datasets.folder(folder, load=load)
    else:
        images = _flat(folder, load)
    inputs.say_left_out(images)
    return images


def _flat(folder, load):
    paths = [str(file) for file in _images(folder)]
    expected = f"images ({', '.join(EXTENSIONS)}). Name the folders with images one by one"
    require(len(paths) > 0, f"{str(folder)!r} without images", expected)
    labels = np.zeros(len(paths), np.int64)
    skipped = tuple((str(file), f"suffix {file.suffix!r}") for file in _visible(folder) if str(file) not in paths)
    return datasets.LabeledSet(paths=np.array(paths), labels=labels, class_names=("",), load=load, skipped=skipped)
