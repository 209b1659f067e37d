"""`tfdml evaluate`."""

import argparse

from tfdml import evaluation
from tfdml.cli import inputs
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, as_records, print_result, say_skipped, table_lines
from tfdml.embedding.in_memory import embed_loadable


def run(options: argparse.Namespace) -> int:
    """Measure retrieval in a set."""
    model, preprocessing = inputs.open_model(options.model, options.preprocessing)
    images = inputs.open_set(options, preprocessing)
    embeddings, rows, skipped = embed_loadable(model, images, options.batch_size)
    say_skipped(skipped)
    report = evaluation.evaluate(embeddings, images.take(rows))
    if options.html is not None:
        report.html(options.html)
    print_result(options, {**report.as_dict(), "skipped_examples": as_records(skipped)}, table_lines(report))
    return EXIT_FAILED if skipped else EXIT_OK
