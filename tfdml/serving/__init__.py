"""An HTTP server for models and indexes, and its page."""

try:
    import aiohttp  # noqa: F401
    import msgspec  # noqa: F401
    import prometheus_client  # noqa: F401
except ImportError as error:
    raise ImportError("The server needs aiohttp, msgspec and prometheus_client: pip install tfdml[serving].") from error

from tfdml.serving.limits import Limits
from tfdml.serving.run import run
from tfdml.serving.server import application

__all__ = ["Limits", "application", "run"]


def __dir__():
    return __all__
