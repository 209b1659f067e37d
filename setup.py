"""The metadata that setup.cfg cannot state: what depends on the addresses of the repository and the site."""

import runpy
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
made = runpy.run_path(str(ROOT / "tools" / "addresses.py"))
found = made["addresses"](ROOT)
setup(
    long_description=made["long_description"]((ROOT / "README.md").read_text(encoding="utf-8"), found["repository"]),
    project_urls=made["project_urls"](**found),
)
