"""How hard the glyphs are before anything is learned: prints the table of docs/glyphs.md.

python tools/glyphs_difficulty.py
"""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import tfdml

KEYS = ("recall@1", "recall@8", "map@r")


def pixels(part):
    """Pixels of each image minus their mean: `(n, 1024)` float32."""
    flat = part.images.reshape(len(part), -1).astype(np.float32)
    return flat - flat.mean(axis=1, keepdims=True)


def row(name, embeddings, test, **options):
    """Prints one line of the table."""
    values = tfdml.metrics.retrieval(embeddings, test.labels, **options)
    print(f"| {name} | " + " | ".join(f"{100 * values[key]:.1f}" for key in KEYS) + " |", flush=True)


def main():
    """Measures both splits."""
    print(f"| | {' | '.join(KEYS)} |\n|{' --- |' * (len(KEYS) + 1)}")
    for split in ("class", "script"):
        train, test = tfdml.datasets.glyphs(split=split)
        centred = pixels(test)
        row(f"{split}: raw pixels", test.images.reshape(len(test), -1).astype(np.float32), test)
        row(f"{split}: pixels minus the mean of their image", centred, test)
        row(f"{split}: the same, across type designs", centred, test, groups=test.designs)
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(pixels(train), train.labels)
        row(f"{split}: first 64 linear discriminants of the training part", lda.transform(centred)[:, :64], test)


if __name__ == "__main__":
    main()
