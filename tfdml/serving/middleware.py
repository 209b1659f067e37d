"""Middleware: request limits and uniform error responses."""

import asyncio
import logging
import time
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from tfdml.serving.limits import Limits, RefusedError
from tfdml.serving.monitoring import Monitor

LIMITS, BODY = web.AppKey("limits", Limits), web.RequestKey("body", bytes)

_LOG = logging.getLogger("tfdml.serving")
HTTP_LOG = logging.getLogger("tfdml.serving.http")  # of aiohttp, in place of its own
HTTP_LOG.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError)))
_SAME_SITE = {"same-origin", "none"}  # "none": a person opened the address
_FREE = ("/healthz", "/metrics")  # answered at any load
_RETRY_SECONDS = "1"
_ADVICE = {
    404: "Received an unknown address, expected one such as /v1/models/NAME:predict.",
    405: "Received another method, expected the one in the header Allow.",
    413: "Received a request that is too large. Send fewer or smaller images.",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Middleware:
    """Limits of requests, and one form of errors."""

    def __init__(self, limits: Limits, monitor: Monitor):
        self._limits, self._monitor, self._active, self._on_their_way = limits, monitor, 0, 0

    @web.middleware
    async def answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Errors become `{"error": reason}` with their status, and every answer is counted."""
        begin = time.perf_counter()
        response = await _answered(request, handler)
        response.headers.update(_HEADERS)
        route = request.match_info.route.resource
        name = "unknown" if route is None else route.canonical
        self._monitor.requests.labels(name, response.status).inc()
        self._monitor.seconds.labels(name).observe(time.perf_counter() - begin)
        return response

    @web.middleware
    async def limit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Requests beyond a limit are refused before they are read."""
        _require_local_host(request)
        _require_same_site(request)
        if request.path in _FREE:
            return await handler(request)
        self._require_small(request)
        self._require_place()  # before the body is read, and behind it
        end = asyncio.get_running_loop().time() + self._limits.seconds
        request[BODY] = await self._body(request, end)
        self._require_place()
        return await self._in_time(request, handler, end)

    async def _body(self, request, end):
        """The body of a request. It holds no place while it is on its way."""
        body, most = bytearray(), self._limits.max_body
        try:
            async with asyncio.timeout_at(end):
                async for part in request.content.iter_any():
                    body += part
                    self._on_their_way += len(part)
                    if len(body) > most:
                        raise RefusedError(413, _ADVICE[413])
                    if self._on_their_way > most * self._limits.max_requests:
                        raise RefusedError(503, "Received too many requests at the same time. Send it again later.")
                return bytes(body)
        except TimeoutError as error:
            received = f"a part of a request within {self._limits.seconds:g} seconds"
            raise RefusedError(408, f"Received {received}, expected all of it.") from error
        finally:
            self._on_their_way -= len(body)

    async def _in_time(self, request, handler, end):
        """An answer before the end of the time. The request is active until its threads are done, too."""
        answering = asyncio.ensure_future(handler(request))
        self._active += 1
        self._monitor.active.inc()
        answering.add_done_callback(self._leave)
        try:
            async with asyncio.timeout_at(end):
                return await asyncio.shield(answering)
        except TimeoutError as error:
            seconds = f"{self._limits.seconds:g} seconds"
            raise RefusedError(504, f"The model did not answer within {seconds}. Send it again later.") from error
        finally:
            answering.cancel()

    def _leave(self, answering):
        self._active -= 1
        self._monitor.active.dec()

    def _require_place(self):
        if self._active >= self._limits.max_requests:
            reason = f"Received more than {self._active} requests at the same time. Send it again later."
            raise RefusedError(503, reason)

    def _require_small(self, request):
        coding = request.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise RefusedError(415, f"Received Content-Encoding {coding[:40]!r}, expected none. Send plain JSON.")
        if (request.content_length or 0) > self._limits.max_body:
            raise RefusedError(413, _ADVICE[413])


async def _answered(request, handler):
    try:
        return await handler(request)
    except RefusedError as error:
        return _error(error.status, str(error))
    except web.HTTPException as error:
        return _error(error.status, _ADVICE.get(error.status, error.reason), error.headers)
    except (ClientPayloadError, ConnectionError):
        return _error(400, "Received a part of a request, expected all of it.")
    except Exception:
        _LOG.exception("%r %r failed", request.method, request.path)  # escapes control characters
        return _error(500, "The request failed in the server; its log says why.")


def _error(status, reason, headers=None):
    response = web.json_response({"error": reason}, status=status)
    if status == 503:
        response.headers["Retry-After"] = _RETRY_SECONDS
    if status in (408, 413):
        response.force_close()  # what follows of the request is not read
    if headers and "Allow" in headers:
        response.headers["Allow"] = headers["Allow"]
    return response


def _require_local_host(request):
    """On the loopback interface, refuse pages of other sites whose names were bound to this address."""
    address = (request.get_extra_info("sockname") or ("",))[0]
    try:
        host = urlsplit(f"//{request.host}").hostname
    except ValueError:
        host = None
    if _is_loopback(address) and host != "localhost" and not _is_loopback(host):
        raise RefusedError(403, "Received another Host, expected localhost. Start the server with --host for others.")


def _is_loopback(text):
    """Whether a text is an address of the loopback interface: 127.0.0.0/8 as IPv4 or IPv6, or ::1."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _require_same_site(request):
    """Refuse pages of other sites. A browser names the origin of a page; a program has none."""
    own_origins = {f"{scheme}://{request.host}".lower() for scheme in ("http", "https")}
    origins = {origin.lower() for origin in request.headers.getall("Origin", ())}
    sites = set(request.headers.getall("Sec-Fetch-Site", ()))
    if origins - own_origins or (sites - _SAME_SITE and not _is_opened(request)):
        raise RefusedError(403, "Received a request by a page of another site, expected one by this server's page.")


def _is_opened(request):
    """Whether a person follows a link to this server: what its answer holds is not seen by the page with the link."""
    opens = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    return request.method == "GET" and all(request.headers.get(name) == value for name, value in opens.items())
