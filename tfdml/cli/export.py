"""`tfdml export`."""

import argparse
from pathlib import Path

from tfdml import export
from tfdml._core.checks import require
from tfdml.cli import inputs
from tfdml.cli.printing import EXIT_OK, print_result

_SEARCHES = {"exact": export.ExactSearch, "partitioned": export.PartitionedSearch}


def run(options: argparse.Namespace) -> int:
    """Write a model and its index for other runtimes."""
    model, preprocessing, class_names = inputs.open_keras_model(options.model, options.preprocessing)
    index, search = _index(options), _search(options)
    with inputs.as_usage_error(f"RUN={options.model!r}"):
        require(index is not None or search is None, "-k, --search or --dtype without an index", "--index")
        require(options.runtime is None or "web" in options.to, "--runtime without --to web", "--to web")
    out = Path(options.out or f"{options.model.rstrip('/')}-exports")
    settings = {"preprocessing": preprocessing, "class_names": class_names, "threshold": options.threshold}
    settings |= {"index": index, "search": search, "other_model": options.other_model}
    writers = {
        "savedmodel": lambda path: export.saved_model(model, path, on_error="skip", **settings),
        "onnx": lambda path: export.onnx(model, path, **settings),
        "openvino": lambda path: export.openvino(model, path, **settings),
        "litert": lambda path: export.litert(model, path, **settings),
        "web": lambda path: export.web(model, path, runtime=options.runtime, **settings),
    }
    written = {name: str(writers[name](out / name)) for name in options.to}
    print_result(options, written, [f"{name}: {path}" for name, path in written.items()])
    return EXIT_OK


def _index(options):
    """The index of the options, or the one of the run; None for none."""
    if options.index is not None:
        return inputs.open_index_with_metadata(options.index)
    return inputs.open_run(options.model)[0]


def _search(options):
    """The search of the options; None without any."""
    settings = {name: value for name in ("k", "dtype") if (value := getattr(options, name)) is not None}
    return _SEARCHES[options.search or "exact"](**settings) if settings or options.search else None
