"""Late interaction: does MaxSim of maps of features put the first 20 neighbors of an embedding in a better order?

    python -m studies.late_interaction    # five seeds of three sets, 12 minutes on two cores; networks stay in runs

Queries are 1,000 test images, or all, and their candidates are among all others. Maps are int8 codes of features minus
their mean over the training images. "things" are composites: recipes/things.py, tuned by LoRA. Seed 0 chooses the
weight beside the cosine of the embeddings on the validation part, for MaxSim and for the cosine of whole maps.
"""

import time

import keras
import numpy as np

import tfdml
from recipes import glyphs, things
from studies import pages, photo_patches, runner

ROWS, PAGE = pages.RESULTS / "late_interaction.csv", pages.ROOT / "docs" / "pair-models.md"
READ = {
    "glyphs": lambda: tfdml.datasets.glyphs(validation=True),
    "photo patches": tfdml.datasets.photo_patches,
    "things": things.things,
}
SCORES = {
    "MaxSim": tfdml.search.maxsim,
    "cosine": lambda a, b: tfdml.metrics.pair_scores(a.reshape(len(a), -1), b.reshape(len(b), -1)),
}
K, WEIGHTS = 20, ("alone", 0.25, 0.5, 1.0, 2.0)


def trained(name, train, seed):
    """The network of a seed."""
    if name == "things":
        return things.trained("LoRA", train, rate=things.RATES["LoRA"], seed=seed)[0]
    if name == "photo patches":
        return photo_patches.trained(photo_patches.Run(widths=(64, 128), steps=160, seed=seed), train)[0]
    keras.utils.set_random_seed(seed)
    model, sampler = glyphs.build_model(300), tfdml.samplers.GroupSampler(32, 4, seed=seed)
    model.fit(sampler.batches(train), steps_per_epoch=300, shuffle=False, verbose=0)
    return model


def searched(model, part, center):
    """Queries, their candidates with cosines, and the codes of all maps."""
    embeddings, queries = tfdml.models.embed(model, part), np.random.default_rng(0).permutation(len(part))[:1000]
    found = tfdml.search.Exact(embeddings).search(embeddings[queries], K + 1)
    others = np.argsort(found[0] == queries[:, None], axis=1, kind="stable")[:, :K]
    maps = tfdml.networks.feature_map(model).predict(part.images, batch_size=256, verbose=0) - center
    codes = tfdml.metrics.int8_codes(maps.reshape(-1, maps.shape[-1])).reshape(maps.shape)
    return queries, *(np.take_along_axis(x, others, axis=1) for x in found), codes


def recall(part, found, score=None, weight="alone"):
    """Recall@1 of the candidates in their new order, and the milliseconds of a query."""
    queries, neighbors, cosines, codes = found
    begin, options = time.perf_counter(), {} if weight == "alone" else {"scores": cosines, "weight": weight}
    if score:
        neighbors, _ = tfdml.search.rerank(SCORES[score], codes[queries], codes, neighbors, k=K, **options)
    milliseconds = 1000 * (time.perf_counter() - begin) / len(queries)
    return float(np.mean(part.labels[neighbors[:, 0]] == part.labels[queries])), milliseconds


def rows_of(name, seeds=range(5), folder=pages.ROOT / "runs"):
    """A row for each seed."""
    (train, validation, test), chosen = READ[name](), {}
    for seed in seeds:
        path = folder / f"late-interaction-{name}-{seed}.keras"
        if not path.exists():
            trained(name, train, seed).save(path)
        model = keras.saving.load_model(path)
        center = tfdml.networks.feature_map(model).predict(train.images, verbose=0).mean(axis=(0, 1, 2))
        if not chosen:
            trial = searched(model, validation, center)
            chosen = {score: max(WEIGHTS, key=lambda w: recall(validation, trial, score, w)[0]) for score in SCORES}
        found = searched(model, test, center)
        row = {"set": name, "seed": seed, "embedding": recall(test, found)[0], "bytes": found[3][0].size}
        for score, weight in chosen.items():
            row |= dict(zip((score, f"{score} ms"), recall(test, found, score, weight), strict=True))
            row[f"{score} weight"] = weight
        yield {**row, "dim": model.output_shape[1], "protocol": test.protocol, **tfdml.environment()}


def table(rows):
    """A line for each set: Recall@1, gains with intervals over seeds, costs."""
    body = []
    for name in READ:
        of_set = runner.where(rows, set=name)
        body.append([name, f"{runner.mean_of(of_set, 'embedding'):.1f}"])
        for score in SCORES:
            gains = [100 * (row[score] - row["embedding"]) for row in of_set]
            mean, low, high = pages.interval(gains)
            body[-1] += [f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]", of_set[0][f"{score} weight"]]
        body[-1] += [f"{min(row['MaxSim ms'] for row in of_set):.2g}", f"{of_set[0]['bytes']:,.0f}"]
    return runner.markdown(["set", "embedding", "MaxSim", "weight", "cosine", "weight", "ms", "bytes"], body)


if __name__ == "__main__":
    runner.write_rows(ROWS, [row for name in READ for row in rows_of(name)])
