"""The table of docs/jax-and-gpus.md on precision: retrieval after training in float32 and in half precision.

    KERAS_BACKEND=jax python -m studies.precision                 # ten minutes on one core

The same network, batches, loss and learning rate for all precisions and seeds. The score is that of the validation
classes; nothing is tuned.
"""

import keras
from keras import layers

import tfdml
from studies import pages, runner

ROWS = pages.RESULTS / "precision.csv"
PAGE = pages.ROOT / "docs" / "jax-and-gpus.md"
MARK = "<!-- table of studies/precision -->"
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
STEPS = 300


def network(precision, seed, steps):
    """A small network, compiled for `steps` training steps; in float16 Keras scales the loss."""
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(precision)
    try:
        inputs = keras.Input((32, 32, 1), dtype="uint8")
        x = layers.Rescaling(1 / 255)(inputs)
        model = tfdml.models.EmbeddingModel(inputs, tfdml.models.plain_cnn(x, dim=64, widths=(16, 32, 64)))
        rate = keras.optimizers.schedules.CosineDecay(3e-3, steps)
        model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.MultiSimilarityLoss())
    finally:
        keras.config.set_dtype_policy("float32")
    return model


def trained(precision, seed, steps, part):
    """A model after `steps` batches."""
    model = network(precision, seed, steps)
    sampler = tfdml.samplers.GroupSampler(classes_per_batch=16, examples_per_class=4, seed=seed)
    model.fit(sampler.batches(part.images, part.labels), steps_per_epoch=steps, shuffle=False, verbose=0)
    return model


def row(precision, seed, steps, train, validation):
    """Train, and return the numbers of the validation classes."""
    model = trained(precision, seed, steps, train)
    embeddings = model.predict(validation.images, batch_size=256, verbose=0)
    found = tfdml.metrics.retrieval(embeddings, validation.labels)
    return {
        "precision": precision,
        "seed": seed,
        "recall@1": found["recall@1"],
        "map@r": found["map@r"],
        "embeddings": str(embeddings.dtype),
        "steps": model.steps,
        "skipped_steps": model.steps - int(keras.ops.convert_to_numpy(model.optimizer.iterations)),
        "backend": keras.backend.backend(),
        "protocol": validation.protocol,
        **tfdml.environment(*(["jax"] if keras.backend.backend() == "jax" else [])),
    }


def table(rows):
    """Mean and standard deviation over seeds, as a Markdown table."""
    body = []
    for precision in dict.fromkeys(row["precision"] for row in rows):
        some = runner.where(rows, precision=precision)
        body.append([f"`{precision}`", *(runner.share(some, key) for key in ("recall@1", "map@r"))])
    return runner.markdown(["precision", "Recall@1", "MAP@R"], body, texts=(0,))


def filled(text):
    """The text of the page with the table."""
    return pages.replaced(text, MARK, table(runner.read_rows(ROWS)))


def main():
    """Train and write the rows."""
    options = runner.options_of(__doc__, seeds=3, steps=STEPS)
    train, validation, _ = tfdml.datasets.glyphs(validation=True)
    runs = [(precision, seed) for seed in range(options.seeds) for precision in PRECISIONS]
    runner.write_rows(ROWS, [row(*run, options.steps, train, validation) for run in runs])


if __name__ == "__main__":
    main()
