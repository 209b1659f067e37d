"""The code of pages: blocks, files, commands."""

import re


def programs(page):
    """The blocks of a page that are files: name and content."""
    return re.findall(r"^```python (\S+)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(page):
    """The lines of a page that are typed into a console."""
    text = page.read_text().replace("\\\n", "")
    consoles = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for console in consoles for line in console.splitlines() if line.startswith("$ ")]


def short(code):
    """The code with one step per epoch, one epoch and one trial: documents show the size that users train."""
    return re.sub(r"\b(steps_per_epoch=|epochs=|steps = |trials=)\d+", r"\g<1>1", code)


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
