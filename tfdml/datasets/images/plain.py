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


def is_plain(file: tf.Tensor, max_bytes: int) -> tf.Tensor:
    """Whether a JPEG has one scan, no Exif block and an end mark at its end; otherwise the caller has to parse it."""
    head = tf.strings.unicode_transcode(
        tf.strings.substr(file, 0, _HEAD),  # Regular expressions know characters only: each byte becomes one.
        "ISO-8859-1",
        "UTF-8",
        errors="strict",
        replace_control_characters=False,
    )
    plain = tf.strings.regex_full_match(head, _PLAIN) & ~tf.strings.regex_full_match(head, r"(?s).*Exif\x00\x00.*")
    length = tf.strings.length(file)
    end = tf.strings.substr(file, tf.maximum(length - 2, 0), 2)
    return plain & (end == b"\xff\xd9") & (length <= max_bytes)
