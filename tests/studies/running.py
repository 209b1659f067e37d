"""Studies run in the process of the tests, which loads TensorFlow and draws the glyphs once."""

import runpy
import sys


def run(module, output, monkeypatch, capsys):
    """What `python -m module --quick --output output` prints."""
    monkeypatch.delitem(sys.modules, module, raising=False)  # where another study has imported it
    monkeypatch.setattr("sys.argv", [module, "--quick", "--output", str(output)])
    runpy.run_module(module, run_name="__main__")
    return capsys.readouterr().out
