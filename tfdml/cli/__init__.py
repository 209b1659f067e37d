"""The command line: `tfdml embed`, `evaluate`, `search`, `serve`, `export`, `check` and others, a module per command.

A command has two functions: `declare` adds its options to a parser, `run` prints its results and returns the exit code.
"""

from tfdml.cli.parser import main

__all__ = ["main"]
