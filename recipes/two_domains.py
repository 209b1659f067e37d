"""What the recipes of two domains share, localization and product search: options, results, and intervals."""

import argparse
import json
from pathlib import Path

import numpy as np

import tfdml


def difference(first, second, labels, key):
    """Mean difference of a metric over seeds, with its 95% interval over classes; a run has values per query."""
    values = [np.mean([run[key] for run in runs], axis=0) for runs in (first, second)]
    gap = values[0] - values[1]
    return [float(np.nanmean(gap)), *tfdml.metrics.class_interval(gap, labels)]


def print_table(results, keys):
    """Mean over seeds and its 95% interval, in percent."""
    print(f"{'':44}" + "".join(f"{key:>22}" for key in keys))
    for name, runs in results.items():
        values = [100 * np.array([run[key] for run in runs]) for key in keys]
        bounds = [tfdml.metrics.seed_interval(row) if len(row) > 1 else (row[0], row[0]) for row in values]
        cells = [f"{row.mean():.1f} [{low:.1f}, {high:.1f}]" for row, (low, high) in zip(values, bounds, strict=True)]
        print(f"{name:44}" + "".join(f"{cell:>22}" for cell in cells))


def arguments(doc, output, columns, quick):
    """The options of the command line, and the seeds."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="measure all settings on validation data, with seed 0")
    parser.add_argument("--data", type=Path, help=f"table with the columns {columns}")
    parser.add_argument("--image-size", type=int, default=224, help="size of the images of --data")
    parser.add_argument("--output", type=Path, default=Path("runs", output))
    parser.add_argument("--quick", action="store_true", help=quick)
    options = parser.parse_args()
    options.seeds = [0] if options.choose or options.quick else [0, 1, 2, 3, 4]
    return options


def write(options, protocol, seconds, results, others):
    """Write results.json, and print the table."""
    about = {"seeds": options.seeds, "processor_seconds": round(seconds, 1)}
    about |= tfdml.environment("pillow", "matplotlib", "scikit-image")
    record = {"protocol": protocol, **about, "results": results, **others}
    (options.output / "results.json").write_text(json.dumps(record, indent=1))
    print_table(results, list(next(iter(results.values()))[0]))
