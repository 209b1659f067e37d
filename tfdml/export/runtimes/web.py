"""A page that searches by image in the browser, by ONNX Runtime Web."""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any, Unpack

import keras

from tfdml._core.checks import require
from tfdml._core.pages import style_sheet
from tfdml.embedding.texts import TextModel
from tfdml.export.runtimes.onnx import FILE, OPSETS, onnx_bytes
from tfdml.export.runtimes.pixel_model import RuntimeOptions, pixel_model, runtime_folder
from tfdml.export.texts import page_files
from tfdml.typing import FilePath

SCRIPTS = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
_FOLDER = "onnxruntime-web"
_PAGE = ("index.html", "page.js", "pixels.js", "words.js")


def web(
    model: keras.Model,
    path: FilePath,
    *,
    runtime: FilePath | None = None,
    texts: TextModel | None = None,
    **options: Unpack[RuntimeOptions],
) -> Path:
    """Write a page that searches by image: `index.html`, the model and its index, for any server of static files.

    `python -m http.server --directory page` serves it. The page reads an image, resizes it as `preprocessing` does,
    and lists the ids, the scores and the metadata of the nearest items, or says that the image is unknown; without an
    index it shows the embedding. Draw a box on the image to search for what is in it, with the margin of training.
    Everything runs in the browser: no image is sent, and nothing but the folder is read.

    See also: `tfdml.serving.run` for a page with a server.

    Example:

        >>> inputs = keras.Input((1, 2, 1))
        >>> model = keras.Model(inputs, keras.layers.UnitNormalization()(keras.layers.Flatten()(inputs)))
        >>> folder = tfdml.export.web(model, "page", index=tfdml.search.Exact(np.eye(2, dtype="float32")))
        >>> sorted(path.name for path in folder.iterdir() if path.suffix in (".html", ".js", ".onnx"))
        ['index.html', 'model.onnx', 'page.js', 'pixels.js', 'words.js']

    Args:
        model, path: a model of images and a folder, as for `tfdml.export.onnx`, with its errors.
        runtime: folder `dist` of the npm package onnxruntime-web (`npm install onnxruntime-web`), to copy three of its
            files; None: the page expects them in `onnxruntime-web` beside its folder, for many pages.
        texts: a text model of static vectors, whose tokenizer has words or pieces of words: the page has a field for
            words. None: it has none.
        **options: `preprocessing`, `class_names`, `threshold`, `calibration`, `index`, `search` and `other_model` of
            `saved_model`.

    Raises:
        ValueError: a model of pairs, `boxes=True`, a `runtime` without the files of ONNX Runtime Web, or `texts` of
            another form or another model than the index.
    """
    scripts = [] if runtime is None else [Path(runtime).expanduser() / name for name in SCRIPTS]
    missing = [script.name for script in scripts if not script.is_file()]
    expected = "the folder dist of the npm package onnxruntime-web: npm install onnxruntime-web"
    require(not missing, f"runtime={str(runtime)!r} without {', '.join(missing)}", expected)
    require(not options.get("boxes"), "boxes=True", "boxes=False: the page crops the box that one draws")
    pixels = pixel_model(model, **options)
    require(len(pixels.inputs) == 1, "a model of pairs", "a model that embeds images")
    contents = {FILE: onnx_bytes(pixels, OPSETS[1])}
    contents |= {} if texts is None else page_files(texts, options.get("index"), options.get("search"))
    facts: dict[str, Any] = {
        "texts": texts is not None,
        "format": "web",
        "file": FILE,
        "scripts": f"{_FOLDER}/" if scripts else f"../{_FOLDER}/",
    }
    with runtime_folder(path, pixels, facts, ("onnx", "tf2onnx")) as folder:
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        _write_page(folder, scripts)
    return Path(path)


def _write_page(folder, scripts):
    page = files("tfdml.export.runtimes").joinpath("page")
    for name in _PAGE:
        (folder / name).write_bytes(page.joinpath(name).read_bytes())
    (folder / "page.css").write_text(style_sheet("tfdml.export.runtimes", "page", "page.css"), encoding="utf-8")
    for script in scripts:
        (folder / _FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(script, folder / _FOLDER / script.name)
