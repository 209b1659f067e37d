"""The programs of docs/adapters.md, where the tools are installed: `make adapters` starts it."""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.pages import blocks, programs
from tests.test_documents import ROOT, first_minute

PAGE = ROOT / "docs" / "adapters.md"


def require_lance(paths, embed):
    """A table of LanceDB embeds what is added, and finds a photograph by itself."""
    import lance_function
    import lancedb

    table = lancedb.connect("shop").create_table("photos", schema=lance_function.Photo)
    table.add([{"path": path} for path in paths])
    (found,) = table.search(paths[3]).limit(1).to_list()
    assert found["path"] == paths[3]
    np.testing.assert_allclose(found["vector"], embed(paths[3:4])[0], atol=1e-5)


def require_fiftyone(paths, embed):
    """A model of FiftyOne gives the vectors, of pixels as FiftyOne reads them."""
    import fiftyone_model
    import keras

    pixels = [np.asarray(keras.utils.load_img(path)) for path in paths[:3]]
    np.testing.assert_allclose(fiftyone_model.Tfdml().embed_all(pixels), embed(paths[:3]), atol=1e-2)
    np.testing.assert_allclose(fiftyone_model.Tfdml().embed(pixels[0]), embed(paths[:1])[0], atol=1e-2)


def require_lightly_studio(paths, embed):
    """An embedder of LightlyStudio gives the vectors of files, and names their space."""
    import lightly_studio_embedder

    embedder = lightly_studio_embedder.Tfdml()
    found = embedder.embed_images(paths[:3])
    np.testing.assert_array_equal(found.embeddings, embed(paths[:3]))
    assert found.kept_indices == [0, 1, 2]
    assert embedder.embedding_space_spec().dimension == found.embeddings.shape[1]


def main():
    """Raises the first error; names of tools on the command line choose some."""
    first_minute(Path.cwd())
    Path("adapter.py").write_text(blocks(PAGE)[0])
    for name, content in programs(PAGE):
        Path(name).write_text(content)
    sys.path.insert(0, str(Path.cwd()))
    from adapter import embed

    paths = sorted(str(path) for path in Path("photos").rglob("*.jpg"))[:20]
    tools = {"lancedb": require_lance, "fiftyone": require_fiftyone, "lightly_studio": require_lightly_studio}
    for name in sys.argv[1:] or tools:
        tools[name](paths, embed)
        print(f"{name}: its program gives the vectors of tfdml")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
