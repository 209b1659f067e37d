"""Reproduce the studies of a paper: train, keep the rows, draw the figures, write the tables of the page.

    python -m studies mining                   # an hour on two cores; resumes where it was stopped
    python -m studies importance_sampling      # three hours on two cores, without all_pairs, which takes hours more
    python -m studies leaderboard              # eight hours on one core
    python -m studies reidentification         # half an hour on one core
    python -m studies verification             # six minutes of processor time
    python -m studies mining weights top_k     # some of the studies
    python -m studies mining --quick           # smoke test of the training runs, in runs/quick
    python -m studies mining --only-tables     # figures and tables from the kept rows
    python -m studies leaderboard --restore    # trains what has no committed row

Results of training runs are kept under `runs`; delete them to train again.
"""

import argparse
from pathlib import Path

from studies import importance_sampling, leaderboard, mining, pages, reidentification, restored, runner, verification

PAPERS = {
    "mining": mining,
    "importance_sampling": importance_sampling,
    "leaderboard": leaderboard,
    "reidentification": reidentification,
    "verification": verification,
}


def main(arguments=None):
    """Run the command line."""
    found = parsed(arguments)
    paper = PAPERS[found.paper]
    output = found.output or pages.ROOT / "runs" / ("quick" if found.quick else "") / found.paper
    rows, figures, page = places(found.paper, output, quick=found.quick)
    options = paper.options(output / "runs", quick=found.quick, workers=found.workers)
    if found.restore:
        print(f"{restored.restore_paper(paper, rows, options)} runs restored from {rows}", flush=True)
    if found.quick:
        output.mkdir(parents=True, exist_ok=True)
        page.write_text((pages.ROOT / paper.PAGE).read_text())
    for name in found.studies:
        study, path = paper.STUDIES[name], rows / f"{name}.csv"
        if not found.only_tables:
            runner.write_rows(path, study.rows(options))
        elif not path.exists():
            print(f"{name}: not run yet, no {path.name}", flush=True)
            continue
        if hasattr(study, "draw"):
            study.draw(figures.format(name), runner.read_rows(path))
        page.write_text(filled(page.read_text(), found.paper, [name], rows))


def parsed(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m studies", description=__doc__.splitlines()[0])
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("studies", nargs="*", metavar="study", help="all of the paper by default")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="few classes, few steps, one seed; pages stay as they are")
    mode.add_argument("--only-tables", action="store_true", help="train nothing")
    mode.add_argument("--restore", action="store_true", help="take runs from their committed rows where there are some")
    parser.add_argument("--workers", type=int, default=2, help="runs at the same time, one thread each")
    parser.add_argument("--output", type=Path, help="folder of the training runs; runs/PAPER by default")
    found = parser.parse_args(arguments)
    known = PAPERS[found.paper].STUDIES
    if found.restore and not hasattr(PAPERS[found.paper], "result_of"):
        parser.error(f"Received --restore, expected a paper whose rows hold all of a run, not {found.paper}.")
    if unknown := set(found.studies) - set(known):
        parser.error(f"Received the studies {sorted(unknown)}, expected some of {list(known)}.")
    found.studies = found.studies or list(known)
    return found


def places(name, output, *, quick):
    """Folder of the rows, pattern of the figures, path of the page: of the repository, or under `output` if quick."""
    paper = PAPERS[name]
    if quick:
        return output, str(output / Path(paper.FIGURES).name), output / Path(paper.PAGE).name
    return pages.RESULTS / name, str(pages.ROOT / paper.FIGURES), pages.ROOT / paper.PAGE


def filled(text, name, studies, folder):
    """The page of a paper with the tables of these studies rebuilt from the rows in `folder`; some have none yet."""
    for study in studies:
        module, path = PAPERS[name].STUDIES[study], folder / f"{study}.csv"
        if hasattr(module, "tables") and path.exists():
            rows = runner.read_rows(path)
            text = pages.filled(text, module.tables(rows), f"studies/{name}")
    return text


if __name__ == "__main__":
    main()
