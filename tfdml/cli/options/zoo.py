"""Options of `tfdml zoo`."""

import argparse

EXAMPLE = "tfdml zoo list"


def declare(parser: argparse.ArgumentParser) -> None:
    """List the models of the zoo with their numbers, measure them again, or compare their files with checksums."""
    actions = "list, with NAMEs their cards; evaluate, again, and compare with the cards; check checksums"
    parser.add_argument("action", choices=("list", "evaluate", "check"), help=actions)
    parser.add_argument("names", metavar="NAME", nargs="*", help="models (default: all)")
    parser.add_argument(
        "--root", metavar="ROOT", help="folder or URL of the models (default: savedmodels, then installed packages)"
    )
