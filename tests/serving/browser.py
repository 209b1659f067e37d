"""A headless Chromium, driven over the DevTools protocol."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
from pathlib import Path

import aiohttp

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser", "chrome"))), None)
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --hide-scrollbars "
    "--remote-debugging-port=0 --disable-dev-shm-usage about:blank"
)
_SECONDS = 60


class Tab:
    """One tab: commands of the DevTools protocol, and what scripts wrote to the console."""

    def __init__(self, socket):
        self._socket, self._numbers = socket, itertools.count(1)
        self.complaints = []

    async def call(self, method, **parameters):
        """The result of a command."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=_SECONDS)
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(message["params"]))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    async def value(self, script):
        """The value of an expression in the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, script):
        """Waits until an expression is true, and returns its value."""
        async with asyncio.timeout(_SECONDS):
            while not (found := await self.value(script)):
                await asyncio.sleep(0.05)
        return found

    async def drop(self, path, x, y):
        """Drops a file at a place of the page, as a person does."""
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            await self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    async def screenshot(self, path):
        """Writes a PNG of what is visible."""
        found = await self.call("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(found["data"]))


@contextlib.asynccontextmanager
async def tab(profile, width=1000, height=900, scheme="light"):
    """A tab of a new browser, whose files are in `profile`."""
    process = await asyncio.create_subprocess_exec(
        BROWSER,
        *_FLAGS.split(),
        f"--user-data-dir={profile}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (address,) = [page["webSocketDebuggerUrl"] for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                found = Tab(socket)
                await _prepare(found, width, height, scheme)
                yield found
    finally:
        process.kill()
        await process.wait()


async def _prepare(found, width, height, scheme):
    for domain in ("Page", "Runtime", "Log"):
        await found.call(f"{domain}.enable")
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    await found.call("Emulation.setDeviceMetricsOverride", **size)
    await found.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


async def _port(file):
    async with asyncio.timeout(_SECONDS):
        while not (file.exists() and file.read_text().count("\n")):
            await asyncio.sleep(0.05)
    return int(file.read_text().split()[0])
