"""Train the runs of one start on the backend of Keras; `python -m studies leaderboard` makes the tables.

    KERAS_BACKEND=jax python -m studies.leaderboard trained           # an hour on two cores
    python -m studies.leaderboard random batch pairs                  # some of the families
    python -m studies.leaderboard rows                                # only draw the batches of all runs
    KERAS_BACKEND=jax python -m studies.leaderboard costs             # milliseconds and MiB of a step of each loss
    python -m studies.leaderboard whole-files                         # what a machine without TensorFlow needs
    KERAS_BACKEND=jax python -m studies.leaderboard whole --output whole.csv   # minutes on a GPU

Runs that are kept in `runs/leaderboard` are not trained again. Row numbers of batches and features are files there: a
machine with JAX and without TensorFlow trains from a copy of the folder.
"""

import argparse
from pathlib import Path

from studies import pages, runner
from studies.leaderboard import costs, setting, starts, whole
from studies.leaderboard.family import Family
from studies.leaderboard.methods import FAMILIES


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.leaderboard", description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=[*starts.STARTS, "rows", "costs", "whole", "whole-files"])
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="family", help="all by default")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, default=whole.FILE, help="rows of whole networks, after each wave")
    parser.add_argument("--width", type=int, help="number of whole networks that are trained side by side")
    parser.add_argument("--quick", action="store_true", help="of whole networks: few classes, two steps, two methods")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.families) - set(FAMILIES):
        parser.error(f"Received the families {sorted(unknown)}, expected some of {list(FAMILIES)}.")
    if chosen.work == "costs":
        runner.write_rows(costs.FILE, costs.rows())
        return
    options = setting.options(pages.ROOT / "runs" / "leaderboard" / "runs", workers=chosen.workers)
    if chosen.work == "whole-files":
        whole.keep_files(options)
        return
    if chosen.work == "whole":
        train_whole(chosen)
        return
    for name in chosen.families:
        if chosen.work == "rows":
            setting.draw_all(FAMILIES[name], options)
        else:
            Family(name, FAMILIES[name], [chosen.work]).rows(options)


def train_whole(chosen):
    """Train whole networks, and write the rows of complete methods after each wave of runs."""
    folder = pages.ROOT / "runs" / ("quick" if chosen.quick else "") / "leaderboard" / "runs"
    options = setting.options(folder, quick=chosen.quick)
    width = chosen.width or whole.width(options)
    whole.trained(options, whole.base(options), width, written=lambda rows: runner.write_rows(chosen.output, rows))


if __name__ == "__main__":
    main()
