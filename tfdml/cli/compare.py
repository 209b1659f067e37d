"""The commands `tfdml compare` and `tfdml drift`; they import neither Keras nor TensorFlow."""

import argparse
from collections.abc import Sequence

from tfdml import evaluation
from tfdml._core.atomic import require_replaceable
from tfdml.cli.arguments import refuse_unless, split_member
from tfdml.cli.embedding_files import Files, read_labels, read_table
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, EXIT_UNDECIDED, as_usage_error, print_result, table_lines
from tfdml.evaluation.record import listed_files


def run_compare(options: argparse.Namespace) -> int:
    """Print the tables of a comparison, and write its page."""
    _require_together(options)
    if options.out is not None:
        with as_usage_error(f"--out {options.out}"):
            require_replaceable(options.out, listed_files)
    comparison = _comparison(options)
    lines = table_lines(comparison)
    if options.out is not None:
        lines += ["", f"{comparison.save(options.out)}/index.html shows the queries that differ most"]
    print_result(options, comparison.as_dict(), lines)
    return EXIT_OK


def run_drift(options: argparse.Namespace) -> int:
    """Print what has moved between two stretches of searches; the exit code is 1 if anything has, 3 for few days."""
    tables = []
    for argument in (options.reference, options.log):
        with as_usage_error(argument):
            tables.append(read_table(argument, {"time": "TABLE"}, is_log=True))
    settings = {} if options.confidence is None else {"confidence": options.confidence}
    with as_usage_error(f"REFERENCE {options.reference}, LOG {options.log}"):
        drift = evaluation.drift(*tables, **settings)
    print_result(options, drift.as_dict(), table_lines(drift))
    if drift.moved:
        return EXIT_FAILED
    return EXIT_UNDECIDED if drift.undecided else EXIT_OK


def _require_together(options):
    """Files of models with labels or judgements, and none with a table of scores; a gallery file for each of them."""
    if options.scores is not None:
        refuse_unless(not options.files, "--scores", "FILEs beside it", "the table alone")
    else:
        refuse_unless(len(options.files) > 0, "FILE", "none", "one file or more")
    is_pair = (options.gallery is None) == (options.gallery_labels is None)
    refuse_unless(is_pair, "--gallery", "one of the two", "--gallery and --gallery-labels, or neither")
    number, expected = len(options.gallery or options.files), f"{len(options.files)}, one for each FILE"
    refuse_unless(number == len(options.files), "--gallery", f"{number} files", expected)


def named_files(words: Sequence[str]) -> dict[str, str]:
    """Files by the name of their model: NAME=FILE, or the name of the file without its suffix."""
    files: dict[str, str] = {}
    for word in words:
        name, separator, file = word.partition("=")
        if not separator or split_member(word)[0].exists():
            name, file = split_member(word)[0].stem, word
        received = f"{files.get(name)} and {file}, both with the name {name!r}"
        refuse_unless(name not in files, "FILE", received, f"different names. Write NAME={file}")
        files[name] = file
    return files


def _comparison(options):
    """The comparison of embeddings, rankings or scores."""
    stated = {name: getattr(options, name) for name in ("against", "confidence", "shown")}
    settings = {name: value for name, value in stated.items() if value is not None}
    if options.scores is not None:
        with as_usage_error(f"--scores {options.scores}"):
            table = read_table(options.scores, dict.fromkeys(("model", "score"), "--scores"), ("query", "seed"))
        return evaluation.compare_scores(table, **settings)
    settings |= {} if options.metrics is None else {"metrics": options.metrics}
    files = named_files(options.files)
    if options.qrels is not None:
        return evaluation.compare_runs(files, options.qrels, **settings)
    vectors = Files(files, options.embedding_column)
    labels, paths, by = read_labels(options, "labels", options.by, vectors)
    settings |= {} if options.metric is None else {"metric": options.metric}
    if options.gallery is not None:
        gallery = Files(dict(zip(files, options.gallery, strict=True)), options.embedding_column)
        gallery_labels, gallery_paths, _ = read_labels(options, "gallery_labels", [], gallery)
        settings |= {"gallery": gallery, "gallery_labels": gallery_labels, "gallery_paths": gallery_paths}
    return evaluation.compare(vectors, labels, by=by, paths=paths, **settings)
