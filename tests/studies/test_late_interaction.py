"""The study of late interaction: what it re-ranks, and the table of its committed rows."""

import numpy as np

from studies import late_interaction as study
from tfdml import datasets, search


def test_candidates_are_other_images_and_are_put_in_the_order_of_the_score():
    (part,) = datasets.photo_patches(splits=("validation",))
    part = part.select_classes(range(12))
    model = study.photo_patches.network(study.photo_patches.Run(stem=(4, 4), widths=(4, 8)))
    queries, neighbors, cosines, codes = found = study.searched(model, part, np.float32(0.5))
    assert neighbors.shape == cosines.shape == (len(part), study.K)
    assert not (neighbors == queries[:, None]).any()
    assert codes.dtype == np.int8
    right = part.labels[neighbors[:, 0]] == part.labels[queries]
    assert study.recall(part, found)[0] == right.mean()
    best = [
        row[search.maxsim(codes[[query]], codes[row]).argmax()] for query, row in zip(queries, neighbors, strict=True)
    ]
    assert study.recall(part, found, "MaxSim")[0] == (part.labels[best] == part.labels[queries]).mean()
