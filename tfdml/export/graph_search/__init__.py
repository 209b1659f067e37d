"""Nearest-neighbor search inside a TensorFlow graph.

Settings, such as `ExactSearch`, build a searcher: a `tf.Module`, a function from embeddings `(batch, dim)` float32 to
rows of the vectors `(batch, k)` int32 and scores `(batch, k)` float32, nearest first. Its vectors are variables, so a
SavedModel keeps them in its checkpoint, outside the graph and its limit of 2 GB.
"""
