"""Makes tfdml/datasets/glyphs/manifest.npz, the selection of the glyphs, and prints what each rule did.

    python tools/make_glyphs_manifest.py [file.npz]

Run it again only for a new version of the set: another rasterizer may choose borderline drawings otherwise.
"""

import pathlib
import sys

from tfdml.datasets.glyphs import glyph_set, selection, typefaces

MANIFEST = pathlib.Path(glyph_set.__file__).with_name("manifest.npz")


def main(path=MANIFEST):
    """Selects from the faces of matplotlib's wheel and writes the manifest."""
    chosen = glyph_set.select_glyphs(typefaces.wheel_faces())
    selection.save_manifest(path, chosen)
    for rule, count in chosen.counts.items():
        print(f"{count:>7,} {rule}")
    print(f"{pathlib.Path(path).stat().st_size:>7,} bytes in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
