"""Prometheus metrics of a server."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, exposition

_IMAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Monitor:
    """Counters of one server: requests by route and status, images by result, "embedded" or "refused", and times."""

    CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("tfdml_requests", "Requests answered", ["route", "status"], registry=registry)
        self.seconds = Histogram("tfdml_request_seconds", "Time of a request", ["route"], registry=registry)
        self.active = Gauge("tfdml_requests_active", "Requests being answered", registry=registry)
        self.images = Counter("tfdml_images", "Images by result", ["result"], registry=registry)
        self.batch_images = Histogram("tfdml_batch_images", "Images of a batch", buckets=_IMAGES, registry=registry)
        self.batch_seconds = Histogram("tfdml_batch_seconds", "Time of a batch", registry=registry)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return exposition.generate_latest(self._registry)
