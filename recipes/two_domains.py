"""What the recipes of two domains share, localization and product search: intervals over seeds and classes."""

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
