"""Signatures of a SavedModel, for pixels and for image files."""

import itertools
from collections.abc import Callable
from typing import Any

import keras

from tfdml._core.optional import tf
from tfdml.datasets import Preprocessing
from tfdml.export.graph_index import GraphIndex
from tfdml.export.half import shared_graph
from tfdml.networks.lora import merge_lora

PAIR_INPUTS = ("a", "b")
_BLANKS = {"float32": 0.0, "int64": -1, "string": ""}


def merged(model: keras.Model) -> keras.Model:
    """The network from the inputs of a model to its outputs, with the kernels of LoRA in its own."""
    model = merge_lora(model)
    return keras.Model(model.inputs, model.outputs)


def archive_of(
    model: keras.Model,
    *,
    preprocessing: Preprocessing,
    on_error: str,
    graph_index: GraphIndex | None,
    threshold: float | None,
) -> tuple[keras.export.ExportArchive, list[str]]:
    """The network from the model's input to its output with the signatures of `saved_model`, and their names."""
    network = merged(model)
    shape = preprocessing.shape
    archive = keras.export.ExportArchive()
    answers, graph = _answers(graph_index, threshold), shared_graph(network)
    for (pixel_name, file_name), answer in answers.items():
        answer_pixels = _for_pixels(network, graph, answer)
        archive.add_endpoint(pixel_name, answer_pixels, [tf.TensorSpec((None, *shape), "uint8", name="images")])
        archive.add_endpoint(file_name, _for_files(answer_pixels, preprocessing, on_error), _file_inputs(preprocessing))
    inputs = [tf.TensorSpec((None, *shape), network.inputs[0].dtype, name="images")]
    archive.add_endpoint("embed", _for_pixels(network, graph, _embedding), inputs)
    return archive, [*itertools.chain(*answers), "embed"]


def pair_archive_of(
    model: keras.Model, *, preprocessing: Preprocessing, on_error: str
) -> tuple[keras.export.ExportArchive, list[str]]:
    """The network from both inputs of a model of pairs to its score, and the names of its signatures."""
    network = merged(model)
    archive = keras.export.ExportArchive()
    score = _pair_scores(network, shared_graph(network))
    files = [tf.TensorSpec((None,), "string", name=name) for name in PAIR_INPUTS]
    archive.add_endpoint("serving_default", score, _pair_inputs(preprocessing.shape, ["uint8", "uint8"]))
    archive.add_endpoint("serve_bytes", _for_pair_files(score, preprocessing, on_error), files)
    archive.add_endpoint("score", score, _pair_inputs(preprocessing.shape, [x.dtype for x in network.inputs]))
    return archive, ["serving_default", "serve_bytes", "score"]


def pixel_function(
    model: keras.Model,
    shape: tuple[int, int, int],
    graph_index: GraphIndex | None,
    threshold: float | None,
    *,
    allow_empty: bool = True,
) -> Any:
    """One function of uint8 pixels with the outputs of all signatures, for files that hold one function.

    It maps `images`, or `a` and `b` of a model of pairs, to a dict of tensors.
    """
    network = merged(model)
    graph = lambda *inputs: network(list(inputs), training=False)  # noqa: E731
    if len(network.inputs) == 2:
        function, inputs = _pair_scores(network, graph, allow_empty), _pair_inputs(shape, ["uint8", "uint8"])
    else:
        answer = lambda embeddings: _all_answers(embeddings, graph_index, threshold)  # noqa: E731
        function = _for_pixels(network, graph, answer, allow_empty)
        inputs = [tf.TensorSpec((None, *shape), "uint8", name="images")]
    return tf.function(function, input_signature=inputs)


def _all_answers(embeddings, graph_index, threshold):
    if graph_index is None:
        return _embedding(embeddings)
    if threshold is None:
        return _embedding(embeddings) | graph_index.search(embeddings)
    return _embedding(embeddings) | graph_index.search_and_match(embeddings, threshold)


def _pair_inputs(shape, dtypes):
    return [tf.TensorSpec((None, *shape), dtype, name=name) for name, dtype in zip(PAIR_INPUTS, dtypes, strict=True)]


def _pair_scores(network, graph, allow_empty=True):
    def score(a, b):
        batch = tf.shape(a)[0]
        rows = [
            tf.cast(_with_a_row(images) if allow_empty else images, placeholder.dtype)
            for images, placeholder in zip((a, b), network.inputs, strict=True)
        ]
        output = graph(*rows)
        return {"score": tf.cast(output[0] if isinstance(output, list) else output, "float32")[:batch]}

    return score


def _for_pair_files(score, preprocessing, on_error):
    def answer_files(a, b):
        (pixels, problems), (more_pixels, more_problems) = map(preprocessing.batch_from_bytes, (a, b))
        if on_error == "error":
            return score(_require_valid(pixels, problems), _require_valid(more_pixels, more_problems))
        problems = tf.where(problems == "", more_problems, problems)
        return {"score": _blank_invalid(score(pixels, more_pixels)["score"], problems), "error": problems}

    return answer_files


def _answers(graph_index, threshold):
    """Functions of embeddings, each by the names of its signatures for pixels and for files."""
    answers: dict[tuple[str, str], Callable[[Any], dict[str, Any]]] = {("serving_default", "serve_bytes"): _embedding}
    if graph_index is not None:
        answers["search", "search_bytes"] = graph_index.search
        if threshold is not None:
            answers["match", "match_bytes"] = lambda embeddings: graph_index.match(embeddings, threshold)
    return answers


def _embedding(embeddings):
    return {"embedding": embeddings}


def _file_inputs(preprocessing):
    files = [tf.TensorSpec((None,), "string", name="images")]
    return files + ([tf.TensorSpec((None, 4), "float32", name="boxes")] if preprocessing.boxes else [])


def _for_pixels(network, graph, answer, allow_empty=True):
    def answer_pixels(images):
        batch = tf.shape(images)[0]
        rows = _with_a_row(images) if allow_empty else images
        output = graph(tf.cast(rows, network.inputs[0].dtype))
        embeddings = tf.cast(output[0] if isinstance(output, list) else output, "float32")
        return {name: output[:batch] for name, output in answer(embeddings).items()}

    return answer_pixels


def _with_a_row(images):
    """The images, or a black one where there is none.

    Optimized graphs of some layers (batch normalization) and searches fail without rows. The black image takes their
    place without a branch: other runtimes run branches wrongly (OpenVINO 2026.4).
    """
    return tf.pad(images, [[0, tf.cast(tf.shape(images)[0] == 0, tf.int32)], [0, 0], [0, 0], [0, 0]])


def _for_files(answer_pixels, preprocessing, on_error):
    def answer_read(images, boxes=None):
        pixels, problems = preprocessing.batch_from_bytes(images, boxes)
        if on_error == "error":
            return answer_pixels(_require_valid(pixels, problems))
        answer = {name: _blank_invalid(output, problems) for name, output in answer_pixels(pixels).items()}
        return {**answer, "error": problems}

    def answer_files(images):
        return answer_read(images)

    return answer_read if preprocessing.boxes else answer_files


def _blank_invalid(output, problems):
    """An output with zeros, -1 or empty text in the rows of invalid images."""
    is_valid = tf.reshape(problems == "", [-1] + [1] * (len(output.shape) - 1))
    return tf.where(is_valid, output, tf.constant(_BLANKS[output.dtype.name], output.dtype))


def _require_valid(pixels, problems):
    """The pixels; raises an error that names the first invalid image, if there is one."""
    is_invalid = tf.cast(problems != "", tf.int32)
    first = tf.argmax(tf.concat([is_invalid, [1]], 0))  # an index past the end for a batch without invalid images
    reason = tf.concat([problems, [""]], 0)[first]
    message = tf.strings.join(["Received at place ", tf.strings.as_string(first), " of the batch ", reason])
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_invalid == 0), [message])]):
        return tf.identity(pixels)
