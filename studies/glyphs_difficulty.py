"""Prints the first table of docs/glyphs.md: how hard the glyphs are for methods that learn no metric.

python -m studies.glyphs_difficulty
"""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import tfdml

KEYS = ("recall@1", "recall@8", "map@r")


def pixels(part):
    """The pixels of each image: `(n, 1024)` float32."""
    return part.images.reshape(len(part), -1).astype(np.float32)


def centered(part):
    """The pixels of each image minus their mean: `(n, 1024)` float32."""
    return pixels(part) - pixels(part).mean(axis=1, keepdims=True)


def print_row(name, embeddings, test, **options):
    """Print one line of the table."""
    values = tfdml.metrics.retrieval(embeddings, test.labels, **options)
    print(f"| {name} | " + " | ".join(f"{100 * values[key]:.1f}" for key in KEYS) + " |", flush=True)


def main():
    """Measure both splits."""
    print(f"| | {' | '.join(KEYS)} |\n|{' --- |' * (len(KEYS) + 1)}")
    for split in ("class", "script"):
        train, test = tfdml.datasets.glyphs(split=split)
        print_row(f"{split}: raw pixels", pixels(test), test)
        print_row(f"{split}: pixels minus the mean of their image", centered(test), test)
        print_row(f"{split}: the same, across type designs", centered(test), test, groups=test.designs)
        lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(centered(train), train.labels)
        discriminants = lda.transform(centered(test))[:, :64]
        print_row(f"{split}: first 64 linear discriminants of the training part", discriminants, test)


if __name__ == "__main__":
    main()
