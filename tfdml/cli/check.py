"""`tfdml check`."""

import argparse

from tfdml import datasets
from tfdml.cli import inputs
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, as_records, print_result


def run(options: argparse.Namespace) -> int:
    """List the examples of a set that should be left out."""
    images = inputs.open_set(options, datasets.Preprocessing(size=224))
    checked = images.check_files()
    skipped = images.skipped if inputs.is_table(options.set) else ()
    unusable = [(name, reason) for name, reason in skipped if not inputs.is_of_another_split(reason)]
    records = [{"row": None, "name": name, "reason": reason} for name, reason in unusable] + as_records(
        checked.problems
    )
    num_examples = len(images) + len(unusable)
    head = f"{num_examples:,} examples, of which {len(records):,} have a problem"
    lines = [f"  {record['name']}  {record['reason']}" for record in records]
    lines += [checked.transparency] * bool(checked.transparent)
    record = {"examples": num_examples, "problems": records, "transparent": list(checked.transparent)}
    print_result(options, record, [head, *lines])
    return EXIT_FAILED if records else EXIT_OK
