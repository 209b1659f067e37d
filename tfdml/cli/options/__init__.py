"""The options of the commands, a module per command: the docstring of its `declare` is the text of `--help`.

These modules import nothing but the standard library, so that `--help` and wrong options are answered at once.
"""
