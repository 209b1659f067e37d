"""What weights in few bits cost in Recall@1: models of the zoo, their dense layers quantized by Keras.

python benchmarks/quantized_weights.py            # two sets, three minutes on two cores
python benchmarks/quantized_weights.py --quick    # the first classes of glyphs

`share` of the weights is quantized: Keras has no quantized convolutions. `lost` is the Recall@1 of the float32 model
minus the one of the quantized model among the test images, in points, with its 95% interval over classes; `error` is
the largest difference of a number of an embedding. All settings are the defaults of Keras.
"""

import math
import warnings

import keras
import numpy as np
from _report import options_of, write_table

import tfdml

MODELS = {"glyphs-nt-xent": tfdml.datasets.glyphs, "photo-patches-small": tfdml.datasets.photo_patches}
QUANTIZATIONS = {
    "float32": None,
    "int8": {"config": keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)},
    "int8 and activations": {"mode": "int8"},
    "int4": {"config": keras.quantizers.Int4QuantizationConfig(activation_quantizer=None)},
}


def quantized(name, options):
    """A model of the zoo, and the share of its weights that is quantized."""
    model = tfdml.zoo.load(name)
    if options is None:
        return model, 0.0
    kernels = [layer.kernel for layer in model.layers if isinstance(layer, keras.layers.Dense)]
    share = sum(math.prod(kernel.shape) for kernel in kernels) / model.count_params()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
        model.quantize(**options)
    return model, share


def main():
    """Measure and write the table."""
    options = options_of(__doc__, "quantized_weights.csv")
    sets = {name: load()[-1] for name, load in list(MODELS.items())[: 1 if options.quick else None]}
    if options.quick:
        sets = {name: test.select_classes(range(20)) for name, test in sets.items()}
    write_table(options.output, [row for name, test in sets.items() for row in comparison(name, test)])


def comparison(name, test):
    """A row for each quantization of a model."""
    rows, precise, hits = [], None, None
    for weights, settings in QUANTIZATIONS.items():
        model, share = quantized(name, settings)
        embeddings = tfdml.models.embed(model, test)
        values = tfdml.metrics.retrieval(embeddings, test.labels, k=1, per_query=True)["recall@1"]
        precise, hits = (embeddings, values) if precise is None else (precise, hits)
        difference = tfdml.metrics.paired_comparison(hits, values, test.labels)
        rows.append(
            {
                "model": name,
                "weights": weights,
                "share": share,
                "error": float(np.abs(embeddings - precise).max()),
                "recall@1": 100 * float(np.nanmean(values)),
                "lost": 100 * difference.difference,
                "interval": f"{100 * difference.low:.2f} to {100 * difference.high:.2f}",
            }
        )
    return rows


if __name__ == "__main__":
    main()
