"""The networks of recipes/patches with several seeds: descriptor, 2-channel, dense stereo.

    python -m studies.patches                # the seeds that are missing, then the picture of the page
    python -m studies.patches --quick        # smoke test, in runs/quick

Each row is tested once, with its last step; a stopped command resumes. The settings are those of the recipes.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import tfdml
from recipes import patches
from recipes.patches import __main__ as networks
from recipes.patches import dense_stereo
from studies import pages, runner

ROWS, STEREO = (pages.RESULTS / f"patches{name}.csv" for name in ("", "_stereo"))
PICTURE = pages.IMAGES / "stereo.png"
PAGE = pages.ROOT / "recipes" / "patches" / "README.md"
SOURCE = "studies/patches"
NAMES = ("descriptor", "2-channel")
# The networks of the paper, for the same time with three seeds: with random pairs and, if siamese, with mined ones.
OF_PAPER = tuple(name for name in networks.STEPS if name not in NAMES)
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Setting:
    """Seeds, the files of their rows, and the sizes of a smoke test."""

    rows: Path = ROWS
    stereo: Path = STEREO
    picture: Path = PICTURE
    seeds: tuple[int, ...] = SEEDS
    quick: bool = False


def complete(path, missing, row_of):
    """Add the rows of the missing runs to a file, one by one."""
    rows = runner.read_rows(path) if path.exists() else []
    for run in missing(rows):
        rows.append(row_of(*run))
        runner.write_rows(path, rows)


def train_networks(at):
    """The rows of the networks of pairs: FPR95 on the validation and on the test photographs."""
    train, test, pairs = networks.photo_patches(at.quick)
    _, validation, few_pairs = networks.photo_patches(at.quick, "validation", 3_000)

    def row_of(name, seed):
        steps = 2 if at.quick else networks.STEPS[name]
        model, seconds = networks.trained(name, train, seed, steps, quick=at.quick)
        rates = {
            "validation fpr95": networks.rates(model, validation, few_pairs),
            "fpr95": networks.rates(model, test, pairs),
        }
        about = {"protocol": test.protocol, **tfdml.environment("scikit-image")}
        numbers = rates | {"core_seconds": seconds, "weights": model.count_params()}
        return {"network": name, "seed": seed, "steps": steps, **numbers, **about}

    runs = [(name, seed) for seed in at.seeds for name in NAMES]
    runs += [(name, seed) for seed in at.seeds[:3] for name in ([f"siam{networks.MINED}"] if at.quick else OF_PAPER)]
    complete(at.rows, lambda rows: [run for run in runs if not runner.where(rows, network=run[0], seed=run[1])], row_of)


def train_stereo(at):
    """The rows of the stereo pair: cross-correlation at each window, and the network with each seed."""
    pair, (left, right) = images()
    maps = {window: patches.match_windows(left, right, window=window) for window in dense_stereo.WINDOWS}
    errors = {window: patches.dense_stereo_errors(pair, disparities) for window, disparities in maps.items()}
    best = min(errors, key=lambda window: errors[window].bad.mean())

    def row_of(method, seed):
        steps = 0 if seed == "none" else 4 if at.quick else dense_stereo.STEPS
        network, seconds = dense_stereo.stereo_network(int(seed), steps) if steps else (None, 0.0)
        disparities = maps[method] if network is None else matched(network, left, right)
        if network is not None and seed == 0:
            dense_stereo.draw(
                at.picture, pair, {f"Cross-correlation, {best} pixels": maps[best], "Network": disparities}
            )
            compress(at.picture)
        bad = patches.dense_stereo_errors(pair, disparities)
        return stereo_row(method, seed, bad, errors[best], seconds) | tfdml.environment("scikit-image")

    runs = [(window, "none") for window in dense_stereo.WINDOWS] + [("network", seed) for seed in at.seeds]
    complete(
        at.stereo, lambda rows: [run for run in runs if not runner.where(rows, method=run[0], seed=run[1])], row_of
    )


def compress(path, colors=128):
    """A picture of few colors, which is half as large."""
    with Image.open(path) as image:
        reduced = image.convert("RGB").quantize(colors)
    reduced.save(path, optimize=True)


def images():
    """The motorcycle pair, and the luma of its images."""
    pair = patches.motorcycle_stereo()
    return pair, [image @ np.array([0.299, 0.587, 0.114]) for image in (pair.left, pair.right)]


def matched(network, left, right):
    """The disparities of the features of a network."""
    return patches.match_features(*(network.predict(x[None, ..., None], verbose=0)[0] for x in (left, right)))


def stereo_row(method, seed, errors, best, seconds):
    """A share of bad pixels with its interval, and its difference to cross-correlation at the best window."""
    low, high = tfdml.metrics.class_interval(errors.bad, errors.blocks)
    difference = errors.bad.astype(float) - best.bad
    bounds = tfdml.metrics.class_interval(difference, errors.blocks)
    return {
        "method": method,
        "seed": seed,
        "bad": float(errors.bad.mean()),
        "low": low,
        "high": high,
        "difference": float(difference.mean()),
        "difference_low": bounds[0],
        "difference_high": bounds[1],
        "core_seconds": seconds,
        "pixels": len(errors.bad),
        "protocol": "motorcycle-stereo/left-dense/bad3/v1",
    }


def tables():
    """The tables of the page, by the names of their marks."""
    return {"table": networks_table(runner.read_rows(ROWS)), "stereo": stereo_table(runner.read_rows(STEREO))}


def networks_table(rows):
    """FPR95 of each network that has rows: mean over seeds, and its 95% interval."""
    seeds = {name: runner.where(rows, network=name) for name in NAMES + OF_PAPER}
    body = [
        [
            name,
            *(interval_of([row[key] for row in found if row[key] != ""]) for key in ("validation fpr95", "fpr95")),
            len(found),
            f"{found[0]['steps']:.0f}",
            f"{np.mean([row['core_seconds'] for row in found]):.0f}",
        ]
        for name, found in seeds.items()
        if found
    ]
    head = ["", "validation photographs", "test photographs", "seeds", "steps", "core seconds"]
    return runner.markdown(head, body, texts=(0,))


def interval_of(values):
    """A mean in percent, with the interval of the mean over seeds if there are several."""
    if not values:
        return "not measured"
    mean, low, high = (100 * value for value in pages.interval(values))
    return f"{mean:.1f} ({low:.1f} to {high:.1f})" if len(values) > 1 else f"{mean:.1f} (one seed)"


def stereo_table(rows):
    """Bad pixels by method: of cross-correlation with the interval over blocks, of the network also that over seeds."""
    windows, seeds = ([row for row in rows if (row["seed"] == "none") == kind] for kind in (True, False))
    body = [[f"cross-correlation, {row['method']:.0f} pixels", *_cells(row), ""] for row in windows]
    body += [[f"network, seed {row['seed']:.0f}", *_cells(row), _interval(row, "difference_")] for row in seeds]
    if len(seeds) > 1:
        body.append(["network, mean of the seeds", *interval_of([row["bad"] for row in seeds]).split(" ", 1), ""])
    head = ["", "bad pixels", "95% interval", "difference to the best window"]
    return runner.markdown(head, body, texts=(0,))


def _cells(row):
    return f"{100 * row['bad']:.2f}", _interval(row, "")


def _interval(row, prefix):
    return f"({100 * row[prefix + 'low']:.2f} to {100 * row[prefix + 'high']:.2f})"


def filled(text):
    """The page with its tables."""
    return pages.filled(text, tables(), SOURCE)


def main(arguments=None):
    """Run the command line."""
    options = runner.options_of(__doc__, arguments, output=pages.ROOT / "runs" / "quick" / "patches")
    files = (options.output / path.name for path in (ROWS, STEREO, PICTURE))
    at = Setting(*files, seeds=SEEDS[:1], quick=True) if options.quick else Setting()
    at.rows.parent.mkdir(parents=True, exist_ok=True)
    train_networks(at)
    train_stereo(at)


if __name__ == "__main__":
    main()
