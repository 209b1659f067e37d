"""A running server."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Sequence
from functools import partial

from aiohttp import web
from aiohttp.web_runner import GracefulExit

from tfdml.serving.middleware import LIMITS

_LAST_SECONDS = 0.5  # a busy server accepts the connections that wait, and reads their requests


def listen(host: str = "127.0.0.1", port: int = 8501) -> socket.socket:
    """A socket that waits for connections, at an address of this machine; an OSError that says what to do instead."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise OSError(
            f"Received host={host!r} and port={port}, expected an address of this machine and a free port: {error}. "
            "Choose another port, or 0 for any."
        ) from error


def run(application: web.Application, listening: socket.socket | None = None) -> None:
    """Answer requests until the process is interrupted (SIGINT, SIGTERM).

    After a signal, the server accepts connections for half a second more, finishes the requests that it has, and ends.

    Example: a server that is asked once, by a thread that then interrupts it.

        >>> import base64, json, os, signal, socket, threading, urllib.request
        >>> import tensorflow as tf
        >>> png = tf.io.encode_png(np.array([[[3], [4]]], "uint8")).numpy()
        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> app = tfdml.serving.application(model, tfdml.datasets.Preprocessing(size=(1, 2), channels=1))
        >>> listening, answers = socket.create_server(("127.0.0.1", 0)), []
        >>> def ask():
        ...     address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/models/model:predict"
        ...     body = json.dumps({"instances": [{"b64": base64.b64encode(png).decode()}]}).encode()
        ...     try:
        ...         answers.append(json.load(urllib.request.urlopen(address, body)))
        ...     finally:
        ...         os.kill(os.getpid(), signal.SIGINT)
        >>> threading.Thread(target=ask).start()
        >>> tfdml.serving.run(app, listening)
        >>> np.round(answers[0]["predictions"], 4)
        array([[0.6, 0.8]])

    Args:
        application: as `tfdml.serving.application` makes it.
        listening: a listening socket, such as `socket.create_server(("0.0.0.0", 8501))` for all interfaces; None for
            port 8501 of 127.0.0.1, for programs of this machine only.
    """
    run_with(application, listening or listen())


def run_with(application: web.Application, listening: socket.socket, partners: Sequence[int] = ()) -> bool:
    """Answer requests as `run`, or until one of some processes ends, given as their `multiprocessing` sentinels.

    Returns whether one of them ended first.
    """
    seconds, ended = application[LIMITS].seconds, asyncio.Event()
    application.on_startup.append(partial(_end_later, partners, ended))
    web.run_app(
        application,
        sock=listening,
        print=None,
        access_log=None,
        keepalive_timeout=seconds,
        shutdown_timeout=seconds,
        handler_cancellation=True,  # clients that left are not waited for
        auto_decompress=False,  # a small body must not become a large one
    )
    return ended.is_set()


async def _end_later(partners, ended, application):
    """Let signals end the server after a moment: closing the socket at once drops connections that wait in it."""
    loop = asyncio.get_running_loop()

    def end():
        for sentinel in partners:
            loop.remove_reader(sentinel)
        ended.set()
        raise GracefulExit

    for sentinel in partners:
        loop.add_reader(sentinel, end)
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, _end_after_a_moment, loop, partners)


def _end_after_a_moment(loop, partners):
    for sentinel in partners:  # they have the signal, too, and end at any time
        loop.remove_reader(sentinel)
    loop.call_later(_LAST_SECONDS, _end)


def _end():
    raise GracefulExit
