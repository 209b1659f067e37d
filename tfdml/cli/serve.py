"""`tfdml serve`."""

import argparse
import re
import sys
from pathlib import Path

from tfdml import export
from tfdml.cli import inputs
from tfdml.cli.options.serve import LIMITS
from tfdml.cli.printing import EXIT_OK, print_result


def run(options: argparse.Namespace) -> int:
    """Answer requests over HTTP, with a page for neighbors."""
    from tfdml import serving  # needs the extra serving
    from tfdml.serving.run import listen

    with inputs.as_usage_error(f"--host {options.host} --port {options.port}"):
        listening = listen(options.host, options.port)
    with listening:
        model, preprocessing = inputs.open_model(options.model, options.preprocessing)
        index, thumbnails = _index(options)
        options.name = options.name or _name(options.model)
        application = _application(serving, options, model, preprocessing, index, thumbnails)
        url = _url(options.host, listening.getsockname()[1])
        has_page = index is not None or "search" in getattr(model, "signatures", ())
        record = {"model": f"{url}v1/models/{options.name}", "page": url if has_page else None}
        if inputs.is_training_run(options.model):
            record |= _files(options, model, index, thumbnails)
        print_result(options, record, [f"{name}: {address}" for name, address in record.items() if address])
        sys.stdout.flush()
        serving.run(application, listening)
    return EXIT_OK


def _name(model):
    """The name of the folder of a run, as an address has it; "model" for any other model."""
    letters = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(model).resolve().name).lstrip("._-")
    return letters if letters and inputs.is_training_run(model) else "model"


def _index(options):
    """The index of the options, or that of a run with its thumbnails."""
    if options.index is not None:
        return inputs.open_index_with_metadata(options.index), None
    return inputs.open_run(options.model)


def _files(options, model, index, thumbnails):
    """The files of a run that are served, None for those that are not."""
    folder = Path(options.model)
    return {
        "export": str(folder / str(model.version)),
        "index": options.index or (str(folder / "index") if index is not None else None),
        "thumbnails": str(folder / "thumbnails.npz") if thumbnails is not None else None,
    }


def _application(serving, options, model, preprocessing, index, thumbnails):
    """The server that the options describe."""
    with inputs.as_usage_error(f"MODEL={options.model!r}"):
        limits = {name: getattr(options, name) for name in LIMITS if getattr(options, name) is not None}
        return serving.application(
            model,
            preprocessing,
            name=options.name,
            version=model.version if isinstance(model, export.LoadedModel) else 1,
            index=index,
            thumbnails=thumbnails,
            limits=serving.Limits(**limits),
            batch_size=options.batch_size,
            other_model=options.other_model,
        )


def _url(host, port):
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
