"""
Title: Metric learning for image similarity search
Author: the authors of tfdml
Date created: 2026/11/30
Last modified: 2026/11/30
Description: Learn which images are similar, on classes that the test has not seen, with any backend of Keras.
Accelerator: GPU
"""

# ruff: noqa: E402, I001  # texts stand between the parts, as in an example of Keras

"""
## Overview

A classifier answers with one of the classes that it was trained on. A model of similarity answers a query with the
images that are nearest to it, also those of classes that it has never seen. It maps an image to a vector, its
embedding; training moves images of one class close to each other, and others apart.

We train on seven classes of CIFAR-10, and search among images of the three others. The program needs no custom training
step, and runs on TensorFlow, JAX and PyTorch.

## Setup
"""

import keras
import numpy as np
import tfdml

keras.utils.set_random_seed(0)

"""
## Classes to learn from, classes to search in

If the same classes were in both parts, the number at the end would say how well the network classifies. Whole classes
are held out instead: automobile, cat and ship.
"""

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
HELD_OUT = [NAMES.index(name) for name in ("automobile", "cat", "ship")]

(images, labels), (test_images, test_labels) = keras.datasets.cifar10.load_data()
labels, test_labels = labels[:, 0], test_labels[:, 0]
seen = ~np.isin(labels, HELD_OUT)
images, labels = images[seen], labels[seen]
unseen = np.isin(test_labels, HELD_OUT)
test_images, test_labels = test_images[unseen], test_labels[unseen]

"""
## A network that ends in a unit vector

The model takes pixels from 0 to 255. Rescaling is inside of it, so that whoever uses the model cannot forget it.
"""

inputs = keras.Input((32, 32, 3), dtype="uint8")
x = keras.layers.Rescaling(1 / 127.5, offset=-1.0)(inputs)
x = keras.layers.RandomFlip("horizontal")(x)
for width in (32, 64, 128):
    x = keras.layers.Conv2D(width, 3, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.MaxPooling2D()(x)
x = keras.layers.GlobalAveragePooling2D()(x)
outputs = keras.layers.UnitNormalization()(keras.layers.Dense(64)(x))
model = tfdml.models.EmbeddingModel(inputs, outputs)

"""
## Batches with pairs

A loss over pairs needs images of one class in a batch. The sampler draws seven classes with sixteen images of each. Its
stream is endless, so `fit` needs `steps_per_epoch`.

All 112 x 111 pairs of a batch are compared. `MultiSimilarityLoss` gives those that are hard more weight: images of one
class that are far apart, and images of two classes that are close.
"""

sampler = tfdml.samplers.GroupSampler(classes_per_batch=7, examples_per_class=16, seed=0)
model.compile(keras.optimizers.Adam(1e-3), loss=tfdml.losses.MultiSimilarityLoss())
before = tfdml.models.embed(model, test_images)
model.fit(sampler.batches(images, labels), steps_per_epoch=300, epochs=10, shuffle=False)

"""
## How good is it?

Each test image is a query among all others. Recall@1 is the share of queries whose nearest image has the same class;
MAP@R also counts the order of the next ones. Three classes are few: the numbers hold for these classes, and there are
no intervals over classes.
"""

after = tfdml.models.embed(model, test_images)
for name, embeddings in (("before training", before), ("after training", after)):
    found = tfdml.metrics.retrieval(embeddings, test_labels, k=1)
    print(f"{name}: Recall@1 {found['recall@1']:.1%}, MAP@R {found['map@r']:.1%}")

"""
## Search

An index holds the embeddings and finds the nearest ones. Here each query finds itself first, so we ask for one more.
"""

index = tfdml.search.Exact(after, metadata={"class": [NAMES[label] for label in test_labels]})
neighbors, scores = index.search(after[:5], k=6)
for query, rows in enumerate(neighbors):
    classes = [NAMES[test_labels[row]] for row in rows[1:]]
    print(f"{NAMES[test_labels[query]]:>12}: {', '.join(classes)}")

"""
## Takeaways

* A loss over all pairs of a batch needs batches with several images of each class, and no other change to `fit`.
* Similarity is measured on classes that were not trained on.
* Other losses, miners and samplers take the place of these in one line: `tfdml.losses.NTXentLoss()`,
  `tfdml.losses.MarginLoss()`, `miner=tfdml.miners.ValidTriplets(margin=0.1)`.
"""
