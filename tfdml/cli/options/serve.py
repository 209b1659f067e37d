"""Options of `tfdml serve`."""

import argparse

from tfdml.cli.options.common import INDEX, MODEL, declare_other_model, declare_preprocessing, port, positive

LIMITS = {
    "max_bytes": "maximum size of an image file, and of the images of a request together (default: 20 MiB)",
    "max_pixels": "maximum of width times height (default: 33,554,432)",
    "max_images": "maximum number of images of a request (default: 64)",
    "max_neighbors": "maximum number of neighbors (default: 100)",
    "max_requests": "requests that are answered at the same time (default: 64)",
    "seconds": "time for a request (default: 30)",
}

EXAMPLE = "tfdml serve run"


def declare(parser: argparse.ArgumentParser) -> None:
    """Answer requests over HTTP, with a page for neighbors."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--index", metavar="INDEX", help=INDEX)
    parser.add_argument("--name", help="name of the model in addresses (default: the name of RUN, else model)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=port, default=8501, help="port, 0 for a free one (default: 8501)")
    declare_other_model(parser)
    declare_preprocessing(parser, batch_size=32)
    for name, text in LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=positive, metavar="N", help=text)
