"""SavedModels that TensorFlow Serving runs as they are."""

import keras
import tensorflow as tf

from tfdml._files import check_writable, replacing

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB`\x82"
_JPEG = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"


def saved_model(model, path):
    """Write a model of images as a SavedModel with two signatures.

    * `serving_default(images)`: `(batch, height, width, channels)` uint8 pixels.
    * `serve_bytes(images)`: `(batch,)` strings, each a PNG or JPEG file; decoded, resized to the model's size if need
      be (bilinear, antialiased), then as above. A string that is no whole image is an error of that request that names
      its place in the batch; the model goes on serving.

    Both return `{"embedding": (batch, dim) float32}`. Only what leads from the model's input to its output is written,
    neither the optimizer nor the layers of a loss. The folder loads with `tf.saved_model.load` where neither tfdml nor
    Keras is installed. It is written to a temporary name and renamed, so `path` is a whole model at all times.

    Args:
        model: a functional Keras model of one input `(batch, height, width, channels)`, with fixed height, width and
            channels, that takes raw pixels in [0, 255], and of one output `(batch, dim)`.
        path: folder to write; an older SavedModel there is replaced.

    Returns:
        The folder, a `pathlib.Path`.

    Raises:
        ValueError: a model of another form, or a folder at `path` that holds something other than a SavedModel.
        OSError: `path` cannot be written.
        RuntimeError: Keras does not run on TensorFlow.
    """
    height, width, channels = _image_shape(model)
    path = check_export_path(path)
    network = keras.Model(model.inputs, model.outputs)
    dtype = model.inputs[0].dtype

    def embed(images):
        output = network(tf.cast(images, dtype), training=False)
        return {"embedding": tf.cast(output[0] if isinstance(output, list) else output, "float32")}

    def embed_bytes(images):
        return embed(_decoded(images, height, width, channels))

    archive = keras.export.ExportArchive()
    archive.track(network)
    pixels = tf.TensorSpec((None, height, width, channels), "uint8", name="images")
    archive.add_endpoint("serving_default", embed, [pixels])
    archive.add_endpoint("serve_bytes", embed_bytes, [tf.TensorSpec((None,), "string", name="images")])
    with replacing(path) as partial:
        archive.write_out(str(partial), verbose=False)
    return path


def check_export_path(path):
    """`path` as a `pathlib.Path` that a SavedModel can be written to without losing anything else.

    Raises:
        OSError: it cannot be written.
        ValueError: something other than a SavedModel is there.
    """
    path = check_writable(path)
    if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / "saved_model.pb").is_file()):
        raise ValueError(
            f"Received path={str(path)!r}, which holds something other than a SavedModel; expected a new or empty "
            "folder, or an earlier export. Choose another path, or move away what is there."
        )
    return path


def _image_shape(model):
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"Received a model on the {keras.backend.backend()!r} backend, expected 'tensorflow': a SavedModel holds "
            "TensorFlow operations. Save with model.save('model.keras') and load it with KERAS_BACKEND=tensorflow."
        )
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if not inputs or len(inputs) != 1 or len(outputs) != 1 or len(outputs[0].shape) != 2:
        raise ValueError(
            "Received a model that is not a functional model of one input and one output of shape (batch, dim). "
            "Build it as EmbeddingModel(inputs, outputs)."
        )
    shape = tuple(inputs[0].shape)[1:]
    if len(shape) != 3 or None in shape:
        raise ValueError(
            f"Received a model of inputs (batch, {', '.join(map(str, shape))}), expected images "
            "(batch, height, width, channels) of fixed size. Give keras.Input the whole shape."
        )
    return shape


def _decoded(files, height, width, channels):
    """`(batch,)` strings of PNG or JPEG files to `(batch, height, width, channels)` uint8."""

    def decode(index_and_file):
        index, file = index_and_file
        with tf.control_dependencies(_checks_of_file(index, file)):
            image = tf.io.decode_image(tf.identity(file), channels=channels, expand_animations=False)
        image.set_shape((None, None, channels))
        size = tf.shape(image)
        same = tf.logical_and(tf.equal(size[0], height), tf.equal(size[1], width))
        return tf.ensure_shape(tf.cond(same, lambda: image, lambda: resize(image)), (height, width, channels))

    def resize(image):
        resized = tf.image.resize(tf.cast(image, "float32"), (height, width), antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(resized), 0.0, 255.0), "uint8")

    indexed = (tf.range(tf.size(files)), files)
    return tf.map_fn(decode, indexed, fn_output_signature=tf.TensorSpec((height, width, channels), "uint8"))


def _checks_of_file(index, file):
    """Assertions that a string begins and ends as a PNG or JPEG file does, with a message that helps its sender."""
    size = tf.strings.length(file)

    def begins(mark):
        return tf.equal(tf.strings.substr(file, 0, tf.minimum(len(mark), size)), mark)

    def ends(mark):
        return tf.equal(tf.strings.substr(file, tf.maximum(size - len(mark), 0), len(mark)), mark)

    known = tf.logical_or(begins(_PNG), begins(_JPEG))
    whole = tf.logical_or(tf.logical_and(begins(_PNG), ends(_PNG_END)), tf.logical_and(begins(_JPEG), ends(_JPEG_END)))
    place = ["Received in the batch, at place", index, "and of bytes", size]
    return [
        tf.debugging.Assert(known, [*place, "something that is no image; expected a PNG or JPEG file."]),
        tf.debugging.Assert(
            tf.logical_or(whole, tf.logical_not(known)),
            [*place, "a truncated image; expected a whole PNG or JPEG file. Send the file to its last byte."],
        ),
    ]
