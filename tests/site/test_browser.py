"""The built site in Chromium, light, dark and narrow: an audit by axe, widths, the search, no other addresses."""

import asyncio
import contextlib
import functools
import http.server
import os
import threading
from pathlib import Path

import pytest

from tests.serving.browser import tab

SITE, AXE = os.environ.get("SITE"), os.environ.get("AXE_CORE")
PAGES = {
    "door": "docs/index.html",
    "tutorial": "docs/tutorials/first-model.html",
    "formulas": "docs/losses/triplets.html",
    "tables": "docs/metrics.html",
    "sortable": "docs/losses/table.html",
    "pictures": "docs/mining.html",
    "list of names": "docs/api/index.html",
    "names": "docs/api/tfdml.samplers.html",
}
LOOKS = {"light": (1200, "light"), "dark": (1200, "dark"), "narrow": (390, "light")}
AUDIT = """axe.run().then(({violations, passes}) => ({
    passed: passes.length,
    failed: violations.map(({id, impact, nodes}) => [id, impact, nodes.slice(0, 3).map(({html}) => html)]),
}))"""
SERIOUS = ("serious", "critical")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(SITE is None, reason="SITE, a folder that make docs has built, is not given"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line per request."""

    def log_message(self, *arguments):
        pass

    def copyfile(self, source, outputfile):
        with contextlib.suppress(ConnectionError):  # the browser has left the page
            super().copyfile(source, outputfile)


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def opened(browser, url):
    await browser.call("Page.navigate", url=url)
    await browser.until("document.readyState === 'complete' && location.href !== 'about:blank'")


async def audits(address, look, folder):
    """For each page: what axe found, and the width of its content."""
    width, scheme = LOOKS[look]
    async with tab(folder, width=width, scheme=scheme) as browser:
        found = {}
        for name, path in PAGES.items():
            await opened(browser, f"{address}/{path}")
            await browser.value(Path(AXE).read_text() + "; null")
            found[name] = await browser.value(AUDIT)
            found[name]["width"] = await browser.value("document.documentElement.scrollWidth")
        loaded = await browser.value("performance.getEntriesByType('resource').map(({name}) => name)")
        return found, [url for url in loaded if not url.startswith((address, "data:"))]


@pytest.mark.skipif(AXE is None, reason="AXE_CORE, the script of axe, is not given")
@pytest.mark.parametrize("look", LOOKS)
def test_pages_pass_the_audit_and_are_as_wide_as_the_screen(look, address, tmp_path):
    found, elsewhere = asyncio.run(audits(address, look, tmp_path))
    assert elsewhere == []
    for name, audit in found.items():
        assert [each for each in audit["failed"] if each[1] in SERIOUS] == [], name
        assert audit["passed"] / (audit["passed"] + len(audit["failed"])) >= 0.95, (name, audit["failed"])
        assert audit["width"] <= LOOKS[look][0], name


async def results(url, folder):
    async with tab(folder) as browser:
        await opened(browser, url)
        await browser.until("document.querySelector('#search-results').innerText.includes('Search finished')")
        links = "[...document.querySelectorAll('#search-results li a')].map(({href}) => href)"
        return await browser.value(links)


def test_the_search_finds_a_name_and_a_page(address, tmp_path):
    links = asyncio.run(results(f"{address}/search.html?q=GroupSampler", tmp_path))
    assert f"{address}/docs/api/tfdml.samplers.html#tfdml.samplers.GroupSampler" in links
    assert any(link.partition("?")[0] == f"{address}/docs/samplers.html" for link in links)


def test_the_search_works_without_a_server(tmp_path):
    site = Path(SITE).resolve().as_uri()
    links = asyncio.run(results(f"{site}/search.html?q=re-ranking", tmp_path))
    assert any("reidentification.html" in link for link in links)


QUESTIONS = {
    "flat folder": "docs/photos.html",
    "photographs without a label": "docs/photos.html",
    "remove product": "docs/second-day.html",
    "how many photos": "docs/tuning.html",
    "threshold": "docs/tutorials/serve-with-a-threshold.html",
    "mixed precision": "docs/jax-and-gpus.html",
    "own sampler": "docs/tutorials/your-own-sampler.html",
    "judgements": "docs/compare.html",
    "words": "docs/two-towers.html",
    "which loss": "docs/losses/which.html",
    "compare models": "docs/compare.html",
    "install": "docs/install.html",
    "to label": "docs/labeling.html",
    "container": "docs/running.html",
    "password": "docs/running.html",
}


def test_questions_find_their_page_first(address, tmp_path):
    found = asyncio.run(first_results(address, tmp_path))
    assert found == {question: f"{address}/{page}" for question, page in QUESTIONS.items()}


async def first_results(address, folder):
    """The page of the first result of each question."""
    first = {}
    for number, question in enumerate(QUESTIONS):
        links = await results(f"{address}/search.html?q={question.replace(' ', '+')}", folder / str(number))
        first[question] = links[0].partition("#")[0].partition("?")[0]
    return first
