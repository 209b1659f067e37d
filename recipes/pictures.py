"""The pictures that recipes draw."""

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

RIGHT, WRONG = "#2a9d4a", "#d1495b"


def retrieval_grid(path, images, labels, queries, neighbors, *, title):
    """Draw a row for each query: the query, then its neighbours, framed green where the class is right, else red.

    Args:
        path: PNG file to write.
        images: `(n, height, width, 1)` uint8.
        labels: `(n,)` class ids.
        queries: `(q,)` rows of the queries.
        neighbors: `(q, k)` rows of their neighbours, nearest first.
        title: what stands above.
    """
    rows, columns = neighbors.shape[0], neighbors.shape[1] + 1
    figure, axes = plt.subplots(rows, columns, figsize=(0.8 * columns, 0.8 * rows + 0.5), squeeze=False)
    for query, listed, line in zip(queries, neighbors, axes, strict=True):
        for place, (row, axis) in enumerate(zip([query, *listed], line, strict=True)):
            axis.imshow(images[row, :, :, 0], cmap="gray_r", vmin=0, vmax=255)
            axis.set(xticks=[], yticks=[])
            color = "black" if place == 0 else RIGHT if labels[row] == labels[query] else WRONG
            plt.setp(axis.spines.values(), color=color, linewidth=2.5 if place else 1)
    axes[0, 0].set_title("query", fontsize=9)
    axes[0, 1].set_title("nearest", fontsize=9)
    figure.suptitle(title, fontsize=11)
    _save(figure, path)


def training_curve(path, epochs, loss, map_at_r, *, before):
    """Draw the loss and MAP@R after each epoch, with MAP@R before training as the point at 0.

    Args:
        path: PNG file to write.
        epochs: `(e,)` epochs, from 1.
        loss: `(e,)` mean training loss.
        map_at_r: `(e,)` MAP@R in [0, 1].
        before: MAP@R before training.
    """
    figure, left = plt.subplots(figsize=(6, 3.6))
    left.plot(epochs, loss, color=WRONG, marker="o", markersize=3)
    left.set_xlabel("epoch")
    left.set_ylabel("training loss", color=WRONG)
    left.set_ylim(0, 1.1 * max(loss))
    right = left.twinx()
    right.plot([0, *epochs], 100 * np.array([before, *map_at_r]), color=RIGHT, marker="o", markersize=3)
    right.set_ylabel("MAP@R of test classes, %", color=RIGHT)
    right.set_ylim(0, None)
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    _save(figure, path)


def _save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
