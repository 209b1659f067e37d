"""The commands: each function takes the options of `tfdml.cli.parser`, prints results, and returns the exit code."""

import argparse
import contextlib
import multiprocessing
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfdml import cleaning, datasets, evaluation, export, search, training, zoo
from tfdml._core.atomic import only_writer, require_replaceable
from tfdml._core.checks import counted, require
from tfdml._core.checksums import CHECKSUM, fingerprint, require_same_model
from tfdml._core.stored import read_json
from tfdml.cleaning.clean import remove_cache
from tfdml.cleaning.findings import listed_files
from tfdml.cli import inputs
from tfdml.cli.arguments import IMAGENET, PRESET
from tfdml.cli.parser import LIMITS, MAX_NEIGHBORS
from tfdml.cli.printing import (
    EXIT_FAILED,
    EXIT_OK,
    as_records,
    as_usage_error,
    fail,
    print_result,
    say,
    say_problems,
    say_skipped,
    table_lines,
)
from tfdml.cli.references import Reference
from tfdml.datasets.readers.image_folder import is_problem
from tfdml.datasets.readers.item_files import without_owner
from tfdml.embedding.in_memory import Problem, embed, embed_loadable
from tfdml.embedding.to_disk import write_embeddings
from tfdml.evaluation.details.chance import AT_CHANCE, is_at_chance
from tfdml.evaluation.record import plain
from tfdml.export.serving_config import newest_version
from tfdml.export.texts import is_for_page
from tfdml.models.from_backbone import require_name
from tfdml.search.index.tables import close_values
from tfdml.search.upgrades.migration import Progress
from tfdml.training.outputs import evaluation_of_part, measured_rows
from tfdml.training.plan import plan_of
from tfdml.training.settings import NAMES
from tfdml.training.settings_file import require_options
from tfdml.training.train import require_outside
from tfdml.zoo.card import read_card
from tfdml.zoo.paths import folder_of
from tfdml.zoo.sets import SETS

_ROUNDING = 1e-5  # of a cosine of two embeddings of one image, in batches of other sizes
SEARCHES = {"exact": export.ExactSearch, "partitioned": export.PartitionedSearch}


def run_train(options: argparse.Namespace) -> int:
    """Print the progress on stderr, and the files of the run."""
    if Path(options.set).is_dir():
        with as_usage_error(f"--out {options.out}"):
            require_outside(options.out, options.set)
    settings = {name: getattr(options, name) for name in NAMES if getattr(options, name) is not None}
    with as_usage_error("settings"):  # before the images are read
        require_options(settings)
        require_name(settings.get("backbone"))
    boxes = options.box_columns is not None
    images = inputs.open_set(options, datasets.Preprocessing(size=64, boxes=boxes, background=options.background))
    names = ("config", "resume", "quick", "max_minutes", "license")
    settings |= {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    result = training.train(images, options.out, command=shlex.join(["tfdml", *sys.argv[1:]]), **settings)
    files = {"report": str(result.folder / "report.html"), "serve": shlex.join(["tfdml", "serve", options.out])}
    print_result(options, _record_of_run(result) | files, [f"{name}: {text}" for name, text in files.items()])
    return EXIT_OK


def _record_of_run(result):
    """A finished run as JSON has it."""
    metrics = {name.partition(" ")[0]: plain(means) for name, means in result.evaluation.means.items()}
    epochs = {"epochs": result.epochs, "best_epoch": result.best_epoch}
    return {"folder": str(result.folder), "settings": asdict(result.settings), **epochs, "metrics": metrics}


def run_embed(options: argparse.Namespace) -> int:
    """Print how many examples were embedded."""
    model, preprocessing = Reference(options.model, options.preprocessing).model()
    images = inputs.open_set(options, preprocessing)
    skipped = write_embeddings(model, images, options.out, batch_size=options.batch_size)
    say_skipped(skipped)
    record = {"out": options.out, "embedded": len(images) - len(skipped), "skipped": as_records(skipped)}
    text = f"{record['embedded']:,} examples embedded in {options.out}, {len(skipped):,} skipped"
    print_result(options, record, [text])
    return EXIT_FAILED if skipped else EXIT_OK


def run_evaluate(options: argparse.Namespace) -> int:
    """Print the metrics of a set. Of the set of a run, the command measures the part that was held back."""
    reference = Reference(options.model, options.preprocessing)
    model, preprocessing = reference.model()
    images, run = inputs.open_set(options, preprocessing), reference.run
    report, note = (None, "") if run is None or options.distractors else _held_back(run, model, images, options)
    skipped: Sequence[Problem] = ()
    if report is None:
        if not options.distractors:
            images = _labeled(options, images)
        embeddings, rows, skipped = embed_loadable(model, images, options.batch_size)
        say_skipped(skipped)
        report = evaluation.evaluate(embeddings, images.take(rows), distractors=options.distractors)
        shared = 0 if run is None else _known(run, fingerprint(model, preprocessing), embeddings)
        if shared:
            sentence = f"{shared:,} of {len(rows):,} images are in the set of {run}, which was trained on a part of it."
            note = f"{sentence} New images may be harder."
        if is_at_chance(report):
            say(f"warning: the result is {AT_CHANCE}")
    if options.html is not None:
        report.html(options.html, verdict=" ".join([report.verdict, *([note] if note else [])]))
    record = {**report.as_dict(), "note": note, "skipped_examples": as_records(skipped)}
    print_result(options, record, [*table_lines(report), *([note] if note else [])])
    return EXIT_FAILED if skipped else EXIT_OK


def _labeled(options, images):
    """The images that have a label; one line says how many have none."""
    labeled = images.labeled
    require(len(labeled) > 0, f"SET={options.set!r} without labels", "one subfolder of images per class, or a table")
    if len(labeled) < len(images):
        say(f"{len(images) - len(labeled):,} images without a label are left out; --distractors searches them")
    return labeled


def _held_back(run, model, images, options):
    """The evaluation of the part of its set that a run was not trained on, with a sentence; None for another set."""
    usable = images.check_files().usable_rows
    exported = newest_version(run) / "assets.extra" / "preprocessing.json"
    is_exported = exported.is_file()
    load = datasets.Preprocessing.from_config(read_json(exported)) if is_exported else read_card(run).preprocessing
    plan = plan_of(run, replace(images.take(usable), load=load))
    if plan is None:
        return None, ""
    embeddings = measured_rows(model, images.take(usable), plan, batch_size=options.batch_size)
    held_back = f"of its {plan.reported} part, {len(plan.rows[plan.reported]):,} images that it was not trained on"
    chosen = "" if plan.reported == "test" else ", but that chose its best epoch"
    sentence = f"{run} was trained on a part of this set: the numbers are {held_back}{chosen}."
    return evaluation_of_part({"model": embeddings}, plan, {"model": lambda: model}), sentence


def _known(run, model, embeddings):
    """How many vectors the index of a run has, too, up to rounding."""
    index = search.load(run / "index") if (run / "index").is_dir() else None
    if index is None or index.fingerprint != model:
        return 0
    return int(np.count_nonzero(index.search(embeddings, 1, other_model=True)[1] > 1 - _ROUNDING))


def run_search(options: argparse.Namespace) -> int:
    """Print the neighbors of each image or text."""
    reference, searched = Reference(options.model, options.preprocessing), Reference(options.index, argument="INDEX")
    model, preprocessing = reference.model()
    queries_model = fingerprint(model, preprocessing)
    index = searched.index(queries_model, columns=bool(options.where or options.item_column))
    with as_usage_error(f"INDEX={options.index!r}"):
        require_same_model("queries", queries_model, "the index", index.fingerprint, other_model=options.other_model)
    with as_usage_error(f"--where {options.where}"):
        where = _mask(options.where, index) if options.where else None
    with as_usage_error(f"--item-column {options.item_column}"):
        k = options.k or min(MAX_NEIGHBORS, index.count(where, options.item_column))
    if options.text:
        with as_usage_error(f"MODEL={options.model!r}"):
            texts = reference.texts()
            if texts is None:
                expected = "hub:PRESET, the .keras file of two towers with a tokenizer, or a folder with 'text' in it"
                raise ValueError(f"Received a model without texts, expected {expected}.")
            require_same_model("texts", texts, "the model", queries_model)
        with as_usage_error("--text"):
            vectors = texts(options.images)
    else:
        images = inputs.read_images(options.images, preprocessing, options.box)
        vectors = embed(model, images, batch_size=options.batch_size)
    has_means = options.text or options.best > 1  # scores of another kind
    calibration = None if has_means else reference.calibration(model, index.metric, index.fingerprint, options.prior)
    item_options = {"items": options.item_column, "best": options.best}
    ids, scores = index.search(vectors, k, where=where, **item_options, other_model=True)
    records = [
        {
            "text" if options.text else "image": query,
            "neighbors": [
                {"id": id, "score": score, **probability, "metadata": searched.item(index, id)}
                for id, score, probability in zip(
                    image_ids, image_scores, _probabilities(calibration, image_scores), strict=True
                )
            ],
        }
        for query, image_ids, image_scores in zip(options.images, ids.tolist(), scores.tolist(), strict=True)
    ]
    print_result(options, records, [line for record in records for line in _lines_of_neighbors(record)])
    return EXIT_OK


def _probabilities(calibration, scores):
    """The probability of each score as a column; no column without a calibration."""
    values = [] if calibration is None else calibration.of_neighbors(scores).tolist()
    return [{"probability": value} for value in values] or [{}] * len(scores)


def _lines_of_neighbors(record):
    """The image or text, and a line for each neighbor: score, its probability if known, id, class or label, path."""
    yield record.get("image") or record["text"]
    for neighbor in record["neighbors"]:
        metadata = neighbor["metadata"]
        columns = [str(metadata[name]) for name in ("class", "label", "path") if metadata.get(name) is not None]
        numbers = [f"{neighbor['score']:9.5f}", *(f"{neighbor[x]:6.1%}" for x in ("probability",) if x in neighbor)]
        yield "  ".join([*numbers, f"{neighbor['id']:>8}", *columns])


def _mask(conditions, index):
    """The vectors whose columns have one of the values of `COLUMN=VALUE`, `(n,)` bool; an empty value is no value."""
    columns = index.metadata.column_names if index.metadata is not None else []
    where: dict[str, list[str | None]] = {}
    shown = ", ".join(without_owner(columns)) or "an index with metadata"
    for column, _, value in (condition.partition("=") for condition in conditions):
        require(column in columns, f"column {column!r}", f"one of {shown}")
        is_text = "string" in str(index.metadata[column].type)
        values = [value] if value else ["", None] if is_text else [None]
        where.setdefault(column, []).extend(values)
        if not index.count({column: values}):
            expected = f"others, such as {close_values(index.metadata, column, value)}"
            require(False, f"{column}={value}, values that no item has", expected)
    mask = index.mask(where)
    require(bool(mask.any()), "values that no item has together", "values of the columns")
    return mask


def run_migrate(options: argparse.Namespace) -> int:
    """Print the progress on stderr, a line for each percent, and how many items are embedded, and how many are not."""
    model, preprocessing = Reference(options.model, options.preprocessing).model()
    with as_usage_error(f"INDEX={options.index!r}"):
        index = search.load(options.index)
        table: Any = index.metadata
        expected = "paths of the images, or tfdml.search.migrate with images of your own"
        require(table is not None and "path" in table.column_names, "an index without a column 'path'", expected)
        problems: dict[str, str] = {}
        embed = inputs.embedder_of_paths(model, preprocessing, options.batch_size, options.root, problems)
        settings = {"model": fingerprint(model, preprocessing), "batch_size": options.batch_size}
        states = search.migrate(options.index, embed, **settings)
        if CHECKSUM not in table.column_names:
            say(f"{options.index} has no checksums of its files: the current files are taken")
    state, percent = Progress(len(index), 0, len(index), 1.0, 0.0), -1
    try:
        for state in states:
            if 100 * state.embedded // state.items > percent:
                percent = 100 * state.embedded // state.items
                say(str(state))
    finally:
        say_problems(problems, "cannot be embedded")
    record = {"index": options.index, "embedded": state.embedded, "failed": state.failed}
    counts = f"{state.embedded:,} items of {options.index} embedded again, {state.failed:,} failed"
    print_result(options, record, [counts])
    return EXIT_FAILED if state.failed else EXIT_OK


def run_serve(options: argparse.Namespace) -> int:
    """Print the addresses, and answer requests until an interrupt."""
    with _one_of(options.processes):
        from tfdml import serving  # needs the extra serving
        from tfdml.serving.run import listen

        with as_usage_error(f"--host {options.host} --port {options.port}"):
            listening = listen(options.host, options.port)
        with listening:
            model, index, thumbnails, application = _opened(serving, options)
            url = _url(options.host, listening.getsockname()[1])
            has_page = index is not None or "search" in getattr(model, "signatures", ())
            record = {"model": f"{url}v1/models/{options.name}", "page": url if has_page else None}
            if Reference(options.model).is_run:
                _say_index_of_export(options, model, index)
                record |= _served_files(options, model, index, thumbnails)
            print_result(options, record, [f"{name}: {address}" for name, address in record.items() if address])
            sys.stdout.flush()
            if options.processes > 1:
                return _run_processes(options, application, listening)
            serving.run(application, listening)
    return EXIT_OK


@contextlib.contextmanager
def _one_of(processes):
    """Make this process one of several that count together and share the cores, before TensorFlow counts these.

    TensorFlow has a thread for each core, and one for each file that is decoded: a model does not wait for large files.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        if processes > 1:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # the import of tfdml.serving reads it
            os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, cores // processes)))
        from tfdml.serving.limits import PARALLEL_FILES

        os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(cores + PARALLEL_FILES))
        try:
            yield
        finally:
            os.environ.pop("PROMETHEUS_MULTIPROC_DIR", None)


def _run_processes(options, application, listening):
    """Answer requests in this process and in others, until an interrupt, or until one of them ends."""
    from tfdml.serving.run import run_with

    new = multiprocessing.get_context("spawn").Process
    others = [new(target=_serve_too, args=(options, listening), daemon=True) for _ in range(options.processes - 1)]
    for process in others:
        process.start()
    try:
        has_failed = run_with(application, listening, [process.sentinel for process in others])
    finally:
        for process in others:
            process.terminate()
            process.join()
    return fail("a process of the server has ended, and the others with it", EXIT_FAILED) if has_failed else EXIT_OK


def _serve_too(options, listening):
    """Answer requests of a socket until the first process ends."""
    from tfdml import serving
    from tfdml.serving.run import run_with

    run_with(_opened(serving, options)[-1], listening, [multiprocessing.parent_process().sentinel])


def _say_index_of_export(options, model, index):
    """Say that the index in an export has items of the training, where the run has others now, or no index."""
    items = (getattr(model, "search", None) or {}).get("vectors")
    if items is None or options.index is not None or (index is not None and len(index) == items):
        return
    now = f"no index: :search answers {items:,} items" if index is None else f"{len(index):,} items in its index"
    other = "" if index is None else f": :predict with the signature search answers {items:,}"
    say(f"{options.model} has {now}{other} that its export holds since the training, also those removed since then")


def _served_files(options, model, index, thumbnails):
    """The files of a run that are served, None for those that are not."""
    folder = Path(options.model)
    return {
        "export": str(folder / str(model.version)),
        "index": options.index or (str(folder / "index") if index is not None else None),
        "thumbnails": str(folder / "thumbnails.npz") if thumbnails is not None else None,
    }


def _opened(serving, options):
    """The model, the index and the thumbnails that the options name, and their server; the name follows from them."""
    reference, indexed = _served(options)
    model, preprocessing = reference.model()
    is_known = hasattr(model, "fingerprint") or hasattr(model, "weights")
    served = fingerprint(model, preprocessing) if is_known else None
    index, newer = (None, None) if indexed is None else (indexed.index(served), indexed.newer(served))
    thumbnails = None if index is None or options.index else reference.thumbnails()
    options.name = options.name or reference.name
    with as_usage_error(f"MODEL={options.model!r}"):
        limits = {name: getattr(options, name) for name in LIMITS if getattr(options, name) is not None}
        names = ("name", "batch_size", "item_column", "other_model", "log", "root", "check_recall", "dimensions")
        settings = {name: getattr(options, name) for name in names} | {"limits": serving.Limits(**limits)}
        settings |= {"version": model.version if isinstance(model, export.LoadedModel) else 1}
        settings |= {"index": index, "thumbnails": thumbnails, "newer": newer, "texts": reference.texts()}
        settings["similarity_map"] = reference.similarity_map(model, served)
        metric = index.metric if index is not None else (getattr(model, "search", None) or {}).get("metric")
        if metric is not None:
            vectors = getattr(index, "fingerprint", served)
            settings["calibration"] = reference.calibration(model, metric, vectors, options.prior)
        application = serving.application(model, preprocessing, **settings)
    return model, index, thumbnails, application


def _served(options):
    """The model and the index that the options name. Without --index, it is the index of the run, or None."""
    reference = Reference(options.model, options.preprocessing)
    return reference, Reference(options.index, argument="INDEX") if options.index else reference.index_of_run()


def _url(host, port):
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run_export(options: argparse.Namespace) -> int:
    """Print the path of each format."""
    reference, indexed = _served(options)
    model, preprocessing, class_names = reference.network()
    index = None if indexed is None else indexed.index()
    with as_usage_error(f"RUN={options.model!r}"):
        searched = _search_to_export(options)
        received = "-k, --search, --dtype or --item-column without an index"
        require(index is not None or searched is None, received, "--index")
        require(options.runtime is None or "web" in options.to, "--runtime without --to web", "--to web")
    out = Path(options.out or f"{options.model.removeprefix(PRESET).rstrip('/')}-exports")
    settings = {"preprocessing": preprocessing, "class_names": class_names, "threshold": options.threshold}
    settings |= {"index": index, "search": searched, "other_model": options.other_model}
    metric, vectors = getattr(index, "metric", "cosine"), getattr(index, "fingerprint", None)
    settings["calibration"] = reference.calibration(model, metric, vectors, options.prior)
    opened = None if index is None or options.index else reference.thumbnails()
    thumbnails = opened and opened()
    texts, formats = reference.texts(), [name for name in options.to if name in ("onnx", "savedmodel")]
    words = texts if texts is not None and is_for_page(texts) else None
    writers = {
        "savedmodel": lambda path: export.saved_model(model, path, on_error="skip", **settings),
        "onnx": lambda path: export.onnx(model, path, boxes=options.boxes, **settings),
        "openvino": lambda path: export.openvino(model, path, boxes=options.boxes, **settings),
        "litert": lambda path: export.litert(model, path, boxes=options.boxes, **settings),
        "web": lambda path: export.web(
            model, path, runtime=options.runtime, thumbnails=thumbnails, texts=words, **settings
        ),
    }
    written = {name: str(writers[name](out / name)) for name in options.to}
    if texts is not None and formats:
        more = {name: settings[name] for name in ("index", "search", "other_model")}
        written["texts"] = str(export.texts(texts, out / "texts", formats=formats, **more))
    print_result(options, written, [f"{name}: {path}" for name, path in written.items()])
    return EXIT_OK


def _search_to_export(options):
    """The search of the options; None without any."""
    requested = {"k": options.k, "dtype": options.dtype, "items": options.item_column}
    settings = {name: value for name, value in requested.items() if value is not None}
    expected = "--search exact"
    require("items" not in settings or options.search in (None, "exact"), "--item-column for another search", expected)
    return SEARCHES[options.search or "exact"](**settings) if settings or options.search else None


def run_check(options: argparse.Namespace) -> int:
    """Print each example that has a problem, and all else that the set leaves out."""
    images = inputs.open_set(options, datasets.Preprocessing(size=224), says_left_out=False)
    checked = images.check_files()
    left_out = inputs.passed_over(images)
    unusable, others = ([entry for entry in left_out if is_problem(*entry) == wanted] for wanted in (True, False))
    records = [{"row": None, "name": name, "reason": reason} for name, reason in unusable] + as_records(
        checked.problems
    )
    num_examples = len(images) + len(unusable)
    head = f"{counted(num_examples, 'example')}, {len(records):,} with a problem"
    lines = [f"  {record['name']}  {record['reason']}" for record in records]
    lines += [f"{len(others):,} left out of the set:"] * bool(others)
    lines += [f"  {name}  {reason}" for name, reason in others]
    lines += [checked.transparency] * bool(checked.transparent)
    num_unlabeled = len(images) - len(images.labeled)
    lines += [f"{num_unlabeled:,} without a label"] * bool(num_unlabeled)
    record = {"examples": num_examples, "problems": records, "transparent": list(checked.transparent)}
    record |= {"left_out": [{"name": name, "reason": reason} for name, reason in others], "unlabeled": num_unlabeled}
    print_result(options, record, [head, *lines])
    return EXIT_FAILED if records else EXIT_OK


def run_clean(options: argparse.Namespace) -> int:
    """Print the findings as a table; the page shows them."""
    with as_usage_error(f"--out {options.out}"):
        for folder in options.folders:
            require_outside(options.out, folder)
        require_replaceable(options.out, listed_files)
    with as_usage_error(f"FOLDER={' '.join(options.folders)!r}"):
        listed = [split for folder in options.folders for split in inputs.split_folders(Path(folder))]
    model, preprocessing = _model_of_clean(options)
    with as_usage_error(f"FOLDER={' '.join(options.folders)!r}"):
        sets = {str(folder): inputs.open_folder(folder, preprocessing) for folder in listed}
    with only_writer(options.out, "out"):
        findings = _findings(options, model, sets)
    counts = [finding._asdict() for finding in findings.listed]
    precision = findings.calibration and findings.calibration.precision
    record = {"out": options.out, "similarity": findings.similarity, "images": findings.images, "findings": counts}
    record |= {"precision": precision, "problem": findings.problem}
    print_result(options, record, [*table_lines(findings), f"{options.out}/report.html shows them"])
    return EXIT_FAILED if findings.listed else EXIT_OK


def _model_of_clean(options):
    if options.model != IMAGENET:
        return Reference(options.model, options.preprocessing).model()
    size = 96
    return cleaning.copy_network(size), datasets.Preprocessing(size=size)


def _findings(options, model, sets):
    """Search for findings, and write them to OUT. OUT.unfinished, from which a later call resumes, is removed."""
    cache = f"{Path(options.out)}.unfinished"
    settings = {name: getattr(options, name) for name in ("similarity", "precision", "batch_size")}
    findings = cleaning.clean(model, sets, **settings, verify=not options.no_verify, cache=cache)
    cleaning.write_report(findings, options.out)
    remove_cache(cache)
    return findings


def run_zoo(options: argparse.Namespace) -> int:
    """Print the list of the models, their cards, their metrics, or the differences of their files."""
    action = {"list": _list_models, "evaluate": _evaluate_models, "check": _check_models}[options.action]
    if options.names:
        with as_usage_error("NAME"):
            for name in options.names:
                folder_of(name, options.root)
        return action(options, options.names, ())
    with as_usage_error(f"--root {options.root}"):
        listing = zoo.list_models(options.root)
    return action(options, listing.names, listing.unreadable)


def _list_models(options, names, unreadable):
    if options.names:
        cards = [zoo.card(name, root=options.root) for name in names]
        lines = [line for card in cards for line in table_lines(card)]
    else:
        listing = zoo.list_models(options.root)
        cards, lines = listing.cards, table_lines(listing)
    print_result(options, [card.as_dict() for card in cards], lines)
    if options.json:
        _say_unreadable(unreadable)
    return EXIT_FAILED if unreadable else EXIT_OK


def _evaluate_models(options, names, unreadable):
    names = names if options.names else [name for name in names if _has_set(name, options.root)]
    results = [zoo.evaluate(name, root=options.root) for name in names]
    lines = [line for result in results for line in table_lines(result)]
    print_result(options, [result.as_dict() for result in results], lines)
    _say_unreadable(unreadable)
    return EXIT_OK if all(result.agrees for result in results) and not unreadable else EXIT_FAILED


def _has_set(name, root):
    """Whether the package has the set of a card; a line says so if not."""
    has_set = zoo.card(name, root=root).data in SETS
    if not has_set:
        say(f"{name}: skipped. tfdml.zoo.evaluate({name!r}, data=) measures it on a labeled set that you pass.")
    return has_set


def _check_models(options, names, unreadable):
    problems = {name: zoo.check(name, root=options.root) for name in names}
    problems |= {name: (reason,) for name, reason in unreadable}
    lines = [f"{name}: {problem}" for name, listed in problems.items() for problem in listed or ("whole",)]
    print_result(options, problems, lines)
    return EXIT_FAILED if any(problems.values()) else EXIT_OK


def _say_unreadable(unreadable):
    for name, reason in unreadable:
        say(f"{name}: {reason}")
