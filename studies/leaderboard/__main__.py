"""Train the runs of one start on the backend of Keras; `python -m studies leaderboard` makes the tables.

    KERAS_BACKEND=jax python -m studies.leaderboard trained           # an hour on two cores
    python -m studies.leaderboard random batch pairs                  # some of the families
    python -m studies.leaderboard rows                                # only draw the batches of all runs
    KERAS_BACKEND=jax python -m studies.leaderboard costs             # milliseconds and MiB of a step of each loss

Runs that are kept in `runs/leaderboard` are not trained again. Row numbers of batches and features are files there: a
machine with JAX and without TensorFlow trains from a copy of the folder.
"""

import argparse

from studies import pages, runner
from studies.leaderboard import costs, setting, starts
from studies.leaderboard.family import Family
from studies.leaderboard.methods import FAMILIES


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies.leaderboard", description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=[*starts.STARTS, "rows", "costs"])
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="family", help="all by default")
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.families) - set(FAMILIES):
        parser.error(f"Received the families {sorted(unknown)}, expected some of {list(FAMILIES)}.")
    if chosen.work == "costs":
        runner.write_rows(costs.FILE, costs.rows())
        return
    options = setting.options(pages.ROOT / "runs" / "leaderboard" / "runs", workers=chosen.workers)
    for name in chosen.families:
        if chosen.work == "rows":
            setting.draw_all(FAMILIES[name], options)
        else:
            Family(name, FAMILIES[name], [chosen.work]).rows(options)


if __name__ == "__main__":
    main()
