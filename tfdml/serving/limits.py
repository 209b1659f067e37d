"""Limits of a server, and the refusal of a request."""

from dataclasses import dataclass

from tfdml._core.checks import require, require_whole

PARALLEL_FILES = 8  # files that are decoded at the same time
_ROOM = 2**16  # bytes


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server. Requests beyond them are refused with a status of 4xx or 503, and the reason.

    The model's own limits on files hold too: the smaller one counts.

    Example: the body of a request has room for images as base64, a third longer, and 64 KiB of text.

        >>> limits = tfdml.serving.Limits(max_bytes=3 * 2**20, max_images=8)
        >>> limits.max_body >= 4 * 2**20, limits.max_neighbors
        (True, 100)

    Args:
        max_bytes: maximum size of an image file, and of the images of a request together.
        max_pixels: maximum of width times height, checked before an image is decoded. Eight images are decoded at the
            same time, each with at most 9 bytes per pixel: with the default, 2.4 GB.
        max_images: maximum number of images of a request.
        max_neighbors: maximum k of a search.
        max_requests: maximum number of requests that are answered at the same time; more get the status 503. Each holds
            at most four times `max_bytes` of memory, and 4 MiB. A request counts from the last byte of its body until
            it is answered and none of its files is decoded any more. The bodies that are on their way hold at most
            `max_requests` times 4/3 of `max_bytes`.
        seconds: time for a request, from its first byte to its answer, and for an idle connection.
    """

    max_bytes: int = 20 * 2**20
    max_pixels: int = 2**25
    max_images: int = 64
    max_neighbors: int = 100
    max_requests: int = 64
    seconds: float = 30.0

    def __post_init__(self):
        for name in ("max_bytes", "max_pixels", "max_images", "max_neighbors", "max_requests"):
            require_whole(name, getattr(self, name), 1)
        require(self.seconds > 0, f"seconds={self.seconds}", "a time above 0")

    @property
    def max_body(self) -> int:
        """Maximum size of a request in bytes: images of `max_bytes` as base64, and 64 KiB for the rest."""
        return 4 * -(-self.max_bytes // 3) + _ROOM

    @property
    def max_filter(self) -> int:
        """Maximum size of a filter in bytes: 64 KiB, or a 32nd of `max_bytes` if that is more.

        Read and written again, JSON takes up to forty times the memory of its text.
        """
        return max(_ROOM, self.max_bytes // 32)


class RefusedError(Exception):
    """A request that is not answered, with its HTTP status and the reason."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status
