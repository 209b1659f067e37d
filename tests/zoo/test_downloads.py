"""Entries behind a URL: downloaded once, checked, and renamed into the cache."""

import functools
import hashlib
import http.server
import shutil
import threading
import urllib.error
import urllib.request
from typing import ClassVar

import numpy as np
import pytest

from tests.damage import flip
from tests.zoo.conftest import IMAGES
from tfdml import zoo
from tfdml.zoo import paths as places
from tfdml.zoo.entries import EntryRef, load_reference

pytestmark = pytest.mark.slow  # the entries of the fixture take seconds


class Redirects(http.server.BaseHTTPRequestHandler):
    """Sends every request on to `target`."""

    target = ""

    def do_GET(self):
        self.send_response(302)
        self.send_header("Location", self.target)
        self.end_headers()

    def log_message(self, *_): ...


class Files(http.server.SimpleHTTPRequestHandler):
    """The files of a folder; the paths that were asked for are kept."""

    asked: ClassVar[list[str]] = []

    def log_message(self, *_):
        self.asked.append(self.path)


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def started(handler):
    """The URL of a server on this machine, and a function that stops it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def stop():
        server.shutdown()
        server.server_close()
        thread.join()

    return f"http://127.0.0.1:{server.server_address[1]}", stop


@pytest.fixture
def served(root):
    """A server of the folder: the URL, the paths that were asked for, and a function that stops it."""
    Files.asked = []
    url, stop = started(functools.partial(Files, directory=root))
    yield url, Files.asked, stop
    stop()


def in_cache(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if not path.is_dir())


def test_an_entry_is_downloaded_once_and_then_needs_no_network(served, made, tmp_path):
    url, asked, stop = served
    expected = zoo.load("squares", root=made).predict_on_batch(IMAGES)
    np.testing.assert_array_equal(zoo.load("squares", root=f"{url}/").predict_on_batch(IMAGES), expected)
    files = sorted(path.name for path in (made / "squares").rglob("*") if path.is_file())
    assert in_cache(tmp_path) == files
    assert len(asked) == len(files)
    stop()
    np.testing.assert_array_equal(zoo.load("squares", root=url).predict_on_batch(IMAGES), expected)
    assert zoo.check("squares", root=url) == ()
    assert zoo.card("squares", root=url).seed == 3
    np.testing.assert_array_equal(
        load_reference(EntryRef.parse(f"{url}/squares"))[0].predict_on_batch(IMAGES), expected
    )
    with pytest.raises(OSError, match="could not be loaded"):
        zoo.load("pair", root=url)


def test_a_tower_behind_a_url_is_a_model_of_the_command_line(served, made):
    found = load_reference(EntryRef.parse(f"{served[0]}/pair/gallery"))[0].predict_on_batch(IMAGES)
    np.testing.assert_array_equal(found, zoo.load("pair", root=made).towers[1].predict_on_batch(IMAGES))


def test_a_damaged_file_of_a_download_is_named_and_nothing_stays(served, root, tmp_path):
    flip(root / "squares" / "1" / "saved_model.pb", 12345)
    with pytest.raises(ValueError, match=r"1/saved_model\.pb: differs from SHA256SUMS"):
        zoo.load("squares", root=served[0])
    assert in_cache(tmp_path) == []
    shutil.rmtree(root / "pair" / "query")
    with pytest.raises(OSError, match=r"query/1/.* could not be loaded .*404"):
        zoo.load("pair", root=served[0])
    assert in_cache(tmp_path) == []


def test_a_damaged_file_of_the_cache_is_found_and_downloaded_again(served, made, tmp_path):
    url, _, stop = served
    expected = zoo.load("squares", root=url).predict_on_batch(IMAGES)
    file = next((tmp_path / "cache").rglob("model.keras"))
    for read in (
        lambda: zoo.load("squares", root=url).predict_on_batch(IMAGES),
        lambda: load_reference(EntryRef.parse(f"{url}/squares"))[0].predict_on_batch(IMAGES),
    ):
        flip(file, 4321)
        assert zoo.check("squares", root=url) == ("model.keras: differs from SHA256SUMS",)
        with pytest.warns(UserWarning, match=r"model\.keras: differs from SHA256SUMS.*It is downloaded again"):
            found = read()
        np.testing.assert_array_equal(found, expected)
        assert file.read_bytes() == (made / "squares" / "model.keras").read_bytes()
    flip(file, 4321)
    stop()
    with pytest.warns(UserWarning, match="downloaded again"), pytest.raises(OSError, match="could not be loaded"):
        zoo.card("squares", root=url)


def test_a_download_is_limited(served, tmp_path, monkeypatch):
    monkeypatch.setattr(places, "_MAX_BYTES", 1000)
    monkeypatch.setattr(places, "_BLOCK", 100)
    with pytest.raises(ValueError, match="of more than 1,000 bytes"):
        zoo.load("squares", root=served[0])
    assert in_cache(tmp_path) == []


def test_a_server_cannot_write_outside_the_cache(served, root, tmp_path):
    (root / "outside").write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()
    (root / "squares" / "SHA256SUMS").write_text(f"{digest}  ../outside\n")
    with pytest.raises(ValueError, match="of another form"):
        zoo.load("squares", root=served[0])
    assert in_cache(tmp_path) == []


@pytest.fixture
def redirecting():
    """A server that redirects: its URL, and a function that sets where to."""
    url, stop = started(Redirects)
    yield url, lambda target: setattr(Redirects, "target", target)
    stop()


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/x", "file:///etc/passwd", "FTP://127.0.0.1:9/x"])
def test_a_redirect_to_anything_but_http_and_https_is_refused(target, redirecting, tmp_path):
    url, redirect = redirecting
    redirect(target)
    with pytest.raises(OSError, match=r"could not be loaded .*(redirect|Redirection)"):
        zoo.load("squares", root=url)
    assert in_cache(tmp_path) == []


def test_a_redirect_to_http_is_followed_but_not_from_https(redirecting, served, made, tmp_path):
    url, redirect = redirecting
    redirect(f"{served[0]}/squares/model.json")
    places._fetch(f"{url}/other", tmp_path / "model.json", 10**6)
    assert (tmp_path / "model.json").read_bytes() == (made / "squares" / "model.json").read_bytes()
    request = urllib.request.Request("https://127.0.0.1/squares/SHA256SUMS")
    follow = places._Redirects().redirect_request
    assert follow(request, None, 302, "Found", {}, "https://127.0.0.1/other").full_url == "https://127.0.0.1/other"
    with pytest.raises(urllib.error.HTTPError, match=r"redirect to http://127\.0\.0\.1/other"):
        follow(request, None, 302, "Found", {}, "http://127.0.0.1/other")
