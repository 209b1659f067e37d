"""The page of `tfdml demo` as a picture for the README and as a moving one: a photograph, a box in it, what both find.

python -m studies.search_page    # a minute; needs Chromium, and the extra samples
"""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

import tfdml
from studies import first_run, pages
from tests.serving.browser import tab

PICTURE = pages.IMAGES / "search-page.png"  # and .gif
SECONDS, SIZE = 2, (600, 672)  # of each view of the moving picture
PHOTOGRAPH = "astronaut"
BOX = (0.55, 0.66, 0.99, 0.99)  # of the helmet: left, upper, right and lower border, as shares of the photograph
WIDTH, HEIGHT = 1000, 1120
COMPLETE = "[...document.images].every((image) => image.complete)"


async def draw(url, photo, profile, path):
    """Drop a photograph on the page, draw a box around a thing, and take a picture of each answer, and of the last."""
    views = [profile.with_name(f"view-{number}.png") for number in range(3)]
    async with tab(profile, WIDTH, HEIGHT) as page:
        await page.call("Page.navigate", url=url)
        await page.until("document.readyState === 'complete' && document.querySelectorAll('#items img').length > 0")
        await page.until(COMPLETE)
        await page.screenshot(views[0])
        await page.drop(photo, 100, 180)
        await page.until("document.querySelectorAll('#neighbors img').length === 12")
        await page.until(COMPLETE)
        await page.screenshot(views[1])
        shown = json.loads(
            await page.value("JSON.stringify(document.getElementById('picture').getBoundingClientRect())")
        )
        corners = [(shown["x"] + x * shown["width"], shown["y"] + y * shown["height"]) for x, y in (BOX[:2], BOX[2:])]
        for kind, (x, y) in zip(("mousePressed", "mouseReleased"), corners, strict=True):
            await page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        await page.until("query.box !== undefined && element('status').textContent.startsWith('12 neighbors')")
        await page.until(COMPLETE)
        await page.screenshot(views[2])
    Image.open(views[2]).convert("RGB").quantize(256).save(path, optimize=True)
    first, *others = (Image.open(view).convert("RGB").resize(SIZE).quantize(128) for view in views)
    first.save(path.with_suffix(".gif"), save_all=True, append_images=others, duration=1000 * SECONDS, loop=0)


def main():
    """Run the demo, and look at its page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "savedmodels").symlink_to(pages.ROOT / "savedmodels")
        photo = folder / "photograph.jpg"
        Image.fromarray(tfdml.datasets.photograph(PHOTOGRAPH)).save(photo, quality=95)
        run = {"cwd": folder, "env": first_run.environment(), "text": True}
        subprocess.run(first_run.command("demo", "--no-serve"), check=True, **run)
        words = ("serve", "things", "--index", "tfdml-demo/photos.parquet", "--name", "things", "--port", "0", "--json")
        with subprocess.Popen(first_run.command(*words), stdout=subprocess.PIPE, **run) as server:
            try:
                page = json.loads(server.stdout.readline())["page"]
                asyncio.run(draw(page, photo, folder / "profile", PICTURE))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
