"""A running server."""

import socket

from aiohttp import web

from tfdml.serving.middleware import LIMITS


def listen(host: str = "127.0.0.1", port: int = 8501) -> socket.socket:
    """A socket that waits for connections; they are answered once `run` is called.

    Args:
        host: address of an interface of this machine: "127.0.0.1" for programs of this machine only, "0.0.0.0" for all.
        port: 0 for a free one.

    Returns:
        The socket; `socket.getsockname()[1]` is its port.

    Raises:
        OSError: the port is in use, or the address is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise OSError(
            f"Received host={host!r} and port={port}, expected an address of this machine and a free port: {error}. "
            "Choose another port, or 0 for any."
        ) from error


def run(application: web.Application, listening: socket.socket) -> None:
    """Answer requests until the process is interrupted (SIGINT, SIGTERM); requests under way are then finished.

    Args:
        application: as `tfdml.serving.application` makes it.
        listening: a socket of `listen`.
    """
    seconds = application[LIMITS].seconds
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
