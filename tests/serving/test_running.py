"""The lines of docs/running.md: requests by curl, and the check of the container's health."""

import asyncio
import re
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
import yaml
from aiohttp.test_utils import TestServer
from PIL import Image

from tfdml import models, search, serving, visualize
from tfdml.datasets import Preprocessing

TEXT = (Path(__file__).parents[2] / "docs" / "running.md").read_text()
COMMANDS = re.findall(r"^\$ (.*)$", TEXT, flags=re.MULTILINE)
HEALTH = yaml.safe_load(re.search(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)[1])["services"]["search"]["healthcheck"]


@pytest.fixture
def application(tmp_path):
    """A server of nine photographs of mugs; one more is `photo.jpg`."""
    images = np.random.default_rng(0).integers(0, 256, (10, 20, 16, 3), np.uint8)
    paths = [tmp_path / f"{row}.jpg" for row in range(9)] + [tmp_path / "photo.jpg"]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    inputs, view = keras.Input((8, 8, 3)), Preprocessing(size=8)
    model = models.from_backbone(keras.Model(inputs, keras.layers.Conv2D(4, 3)(inputs)), dim=3)
    columns = {"class": ["mug"] * 9, "path": list(map(str, paths[:9]))}
    index = search.Exact(models.embed(model, [view(str(path)) for path in paths[:9]]), metadata=columns)
    maps = partial(visualize.similarity_map, model)
    return serving.application(model, view, name="run", index=index, similarity_map=maps)


async def told(application, folder):
    """The exit code and the output of each command, against a server at another port."""
    results = {}
    async with TestServer(application) as running:
        for command in [*COMMANDS, " ".join(HEALTH["test"][1:])]:
            line = re.sub(r"(127\.0\.0\.1|localhost):8501", f"127.0.0.1:{running.port}", command)
            process = await asyncio.create_subprocess_shell(line, cwd=folder, stdout=asyncio.subprocess.PIPE)
            output, _ = await process.communicate()
            results[command] = (process.returncode, output.decode())
    return results


@pytest.mark.slow
def test_every_line_of_the_page_is_answered(application, tmp_path):
    results = asyncio.run(told(application, tmp_path))
    assert len(results) == 12
    assert [command for command, (code, output) in results.items() if code or '"error"' in output] == []
    searched = [output for command, (_, output) in results.items() if "photo.json" in command and ":search" in command]
    assert [output.count("score") for output in searched] == [9]
