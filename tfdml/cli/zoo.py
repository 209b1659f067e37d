"""`tfdml zoo list`, `evaluate` and `check`."""

import argparse

from tfdml import zoo
from tfdml.cli import inputs
from tfdml.cli.printing import EXIT_FAILED, EXIT_OK, print_result, say, table_lines
from tfdml.zoo.paths import folder_of


def run(options: argparse.Namespace) -> int:
    """List the models of the zoo with their numbers, measure them again, or compare their files with checksums."""
    action = {"list": _list_models, "evaluate": _evaluate, "check": _check}[options.action]
    if options.names:
        with inputs.as_usage_error("NAME"):
            for name in options.names:
                folder_of(name, options.root)
        return action(options, options.names, ())
    with inputs.as_usage_error(f"--root {options.root}"):
        listing = zoo.list_models(options.root)
    return action(options, listing.names, listing.unreadable)


def _list_models(options, names, unreadable):
    if options.names:
        cards = [zoo.card(name, root=options.root) for name in names]
        lines = [line for card in cards for line in table_lines(card)]
    else:
        listing = zoo.list_models(options.root)
        cards, lines = listing.cards, table_lines(listing)
    print_result(options, [card.as_dict() for card in cards], lines)
    if options.json:
        _say_unreadable(unreadable)
    return EXIT_FAILED if unreadable else EXIT_OK


def _evaluate(options, names, unreadable):
    results = [zoo.evaluate(name, root=options.root) for name in names]
    lines = [line for result in results for line in table_lines(result)]
    print_result(options, [result.as_dict() for result in results], lines)
    _say_unreadable(unreadable)
    return EXIT_OK if all(result.agrees for result in results) and not unreadable else EXIT_FAILED


def _check(options, names, unreadable):
    problems = {name: zoo.check(name, root=options.root) for name in names}
    problems |= {name: (reason,) for name, reason in unreadable}
    lines = [f"{name}: {problem}" for name, listed in problems.items() for problem in listed or ("whole",)]
    print_result(options, problems, lines)
    return EXIT_FAILED if any(problems.values()) else EXIT_OK


def _say_unreadable(unreadable):
    for name, reason in unreadable:
        say(f"{name}: {reason}")
