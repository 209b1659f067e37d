"""Recognition of plain JPEG files by a few operations: most files of data sets are, and decode without delay."""

import tensorflow as tf

_HEAD = 1024  # Bytes that hold the header of a plain file; the standard tables of libjpeg take 623.
_FRAME = r"\xFF[\xC0\xC1]\x00{length}\x08.{{4}}{components}"  # SOF0 or SOF1: one scan holds all coefficients.
_SCAN = r"\xFF\xDA\x00{length}{components}.{{{selectors}}}\x00\x3F\x00"
_GRAY = (
    _FRAME.format(length=r"\x0B", components=r"\x01")
    + ".*"
    + _SCAN.format(length=r"\x08", components=r"\x01", selectors=2)
)
_COLOR = (
    _FRAME.format(length=r"\x11", components=r"\x03")
    + ".*"
    + _SCAN.format(length=r"\x0C", components=r"\x03", selectors=6)
)
_PLAIN = rf"(?s)\xFF\xD8\xFF.*({_GRAY}|{_COLOR}).*"
# An Exif block whose first directory follows at once; its first entry of the orientation, if it counts, says upright.
_UPRIGHT = (
    r"(?s)\xFF\xE1..Exif\x00\x00("
    r"II\*\x00\x08\x00\x00\x00..([^\x12].{11}|\x12[^\x01].{10})*\x12\x01\x03\x00.{4}\x01\x00|"
    r"MM\x00\*\x00\x00\x00\x08..([^\x01].{11}|\x01[^\x12].{10})*\x01\x12\x00\x03.{4}\x00\x01).*"
)
_EXIF = r"(?s).*Exif\x00\x00.*"
_JFIF = b"\xff\xe0\x00\x10"  # the block that may come before it


def is_plain(file: tf.Tensor, max_bytes: int) -> tf.Tensor:
    """Whether a JPEG has one scan, an end mark at its end, and no Exif block, or one at its start that says upright.

    Otherwise the caller has to parse it.
    """
    head = _characters(tf.strings.substr(file, 0, _HEAD))
    has_exif = tf.strings.regex_full_match(head, _EXIF)
    plain = tf.cond(has_exif, lambda: _is_upright(file), lambda: tf.strings.regex_full_match(head, _PLAIN))
    length = tf.strings.length(file)
    end = tf.strings.substr(file, tf.maximum(length - 2, 0), 2)
    return plain & (end == b"\xff\xd9") & (length <= max_bytes)


def _is_upright(file):
    """Whether a file begins with an Exif block that says upright, and is plain without it."""
    start = tf.where(_part(file, 2, 4) == _JFIF, 20, 2)
    block = _characters(_part(file, start, _HEAD))
    length = tf.io.decode_raw(_part(file, start + 2, 2), tf.uint16, fixed_length=2, little_endian=False)[0]
    rest = _part(file, start + 2 + tf.cast(length, tf.int32), _HEAD)
    head = _characters(tf.strings.join([_part(file, 0, 2), rest]))
    plain = tf.strings.regex_full_match(head, _PLAIN) & ~tf.strings.regex_full_match(head, _EXIF)
    return tf.strings.regex_full_match(block, _UPRIGHT) & plain


def _part(file, start, count):
    """Up to `count` bytes from `start`."""
    return tf.strings.substr(file, tf.minimum(start, tf.strings.length(file)), count)


def _characters(data):
    """Bytes as characters of the same numbers, which are all that regular expressions know."""
    return tf.strings.unicode_transcode(data, "ISO-8859-1", "UTF-8", errors="strict", replace_control_characters=False)
