"""Makes tfdml/datasets/photo_patches/manifest.npz, the places of the photo patches, and prints their numbers.

    python tools/make_photo_patches_manifest.py [file.npz]

Run it again only for a new version of the set: rounding may choose borderline places otherwise.
"""

import pathlib
import sys

import numpy as np

from tfdml.datasets.photo_patches import patches as photo_patch_set
from tfdml.datasets.photo_patches.patches import PARTS, save_manifest, select

MANIFEST = pathlib.Path(photo_patch_set.__file__).with_name("manifest.npz")


def main(path=MANIFEST):
    """Selects the places and writes the manifest."""
    manifest = select()
    save_manifest(path, manifest)
    for part, rows in manifest.items():
        counts = zip(PARTS[part], np.bincount(rows[:, 0]).tolist(), strict=True)
        print(f"{len(rows):>7,} places in {part}: {', '.join(f'{name} {count}' for name, count in counts)}")
    print(f"{pathlib.Path(path).stat().st_size:>7,} bytes in {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
