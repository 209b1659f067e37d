"""`tfdml embed`."""

import argparse

from tfdml import embedding
from tfdml.cli import inputs
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, as_records, print_result, say_skipped


def run(options: argparse.Namespace) -> int:
    """Embed a set to disk."""
    model, preprocessing = inputs.open_model(options.model, options.preprocessing)
    images = inputs.open_set(options, preprocessing)
    skipped = embedding.write_embeddings(model, images, options.out, batch_size=options.batch_size)
    say_skipped(skipped)
    record = {"out": options.out, "embedded": len(images) - len(skipped), "skipped": as_records(skipped)}
    text = f"{record['embedded']:,} examples embedded in {options.out}, {len(skipped):,} skipped"
    print_result(options, record, [text])
    return EXIT_FAILED if skipped else EXIT_OK
