"""Image files as training and serving decode them, against Pillow."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from tfdml.datasets.images import arrays, decode
from tfdml.datasets.images.plain import is_plain
from tfdml.datasets.images.reasons import BROKEN

HEIGHT, WIDTH = 48, 64
MOST = 4 * HEIGHT * WIDTH  # Small enough to be exceeded by a header.
KINDS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")


def photo():
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    smooth = np.stack([rows * 3, columns * 2, rows + columns], axis=2) + 40
    return Image.fromarray((smooth + np.random.default_rng(0).normal(0, 6, smooth.shape)).clip(0, 255).astype("uint8"))


PHOTO = photo()


def saved(kind, image=PHOTO, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def by_pillow(file):
    return np.array(ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")).astype(int)


def decoded(file):
    """The reason why a file is refused, or an empty string, and its pixels, alike in both forms of the decoder."""
    found, by_arrays = by_tensors(file), arrays.decoded(file, 50_000, MOST)
    assert by_arrays[0] == (BROKEN if found[1] is None else found[0])
    if not found[0]:
        np.testing.assert_array_equal(by_arrays[1], found[1])
    return found


def by_tensors(file):
    """As `decoded`, in the form of TensorFlow; without pixels, its decoder failed."""
    try:
        problem, image = decode.decoded(tf.constant(file), 50_000, MOST)
    except tf.errors.InvalidArgumentError as error:
        return error.message, None
    return problem.numpy().decode(), image.numpy()


PLAIN = ("JPEG", "gray JPEG", "JPEG without subsampling", "JPEG with restarts")


def test_plain_jpeg_files_are_recognized_and_no_others():
    assert [name for name in FILES if is_plain(FILES[name], 50_000)] == list(PLAIN)
    with_exif_block = with_exif("JPEG", tiff(6, "<"))
    for other in (b"", b"\xff", FILES["JPEG"] + b"\x00", FILES["JPEG"][:-2], with_exif_block):
        assert not is_plain(other, 50_000)
    assert not is_plain(FILES["JPEG"], len(FILES["JPEG"]) - 1)


def with_alpha(image):
    image = image.convert("RGBA")
    image.putalpha(Image.fromarray(np.linspace(0, 255, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH).astype("uint8")))
    return image


FILES = {
    "JPEG": saved("JPEG"),
    "gray JPEG": saved("JPEG", PHOTO.convert("L")),
    "CMYK JPEG": saved("JPEG", PHOTO.convert("CMYK")),
    "progressive JPEG": saved("JPEG", progressive=True),
    "JPEG without subsampling": saved("JPEG", subsampling=0),
    "JPEG with restarts": saved("JPEG", restart_marker_blocks=3),
    "PNG": saved("PNG"),
    "gray PNG": saved("PNG", PHOTO.convert("L")),
    "black and white PNG": saved("PNG", PHOTO.convert("1")),
    "palette PNG": saved("PNG", PHOTO.convert("P", palette=Image.Palette.ADAPTIVE)),
    "palette PNG with transparency": saved("PNG", PHOTO.quantize(16), transparency=3),
    "RGBA PNG": saved("PNG", with_alpha(PHOTO)),
    "gray and alpha PNG": saved("PNG", with_alpha(PHOTO).convert("LA")),
    "GIF": saved("GIF", PHOTO.quantize(200)),
    "gray GIF": saved("GIF", PHOTO.convert("L")),
    "interlaced GIF": saved("GIF", PHOTO.quantize(32), interlace=1),
    "BMP": saved("BMP"),
    "gray BMP": saved("BMP", PHOTO.convert("L")),
    "palette BMP": saved("BMP", PHOTO.quantize(100)),
    "RGBA BMP": saved("BMP", with_alpha(PHOTO)),
    "WEBP": saved("WEBP"),
    "lossless WEBP": saved("WEBP", lossless=True),
    "gray WEBP": saved("WEBP", PHOTO.convert("L")),
    "RGBA WEBP": saved("WEBP", with_alpha(PHOTO)),
    "lossless RGBA WEBP": saved("WEBP", with_alpha(PHOTO), lossless=True),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_is_rgb_as_pillow_reads_it_whatever_lies_behind_the_image(name):
    for behind in (b"", b"\x00", b"camera data \xff\xd9\xff\xd8 ; IEND" * 9):
        problem, image = decoded(FILES[name] + behind)
        assert problem == ""
        assert image.dtype == np.uint8
        np.testing.assert_array_equal(image, by_pillow(FILES[name]))


def cut_out(mode):
    """The photo with an alpha that falls from the left to the right, in any mode."""
    image = PHOTO.copy()
    image.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, WIDTH).astype("uint8"), (HEIGHT, 1))))
    return image.convert(mode)


PALETTE = PHOTO.quantize(100)
CUT_OUTS = {
    "RGBA PNG": saved("PNG", cut_out("RGBA")),
    "gray PNG": saved("PNG", cut_out("LA")),
    "palette PNG": saved("PNG", PALETTE, transparency=bytes(range(0, 200, 2))),
    "one color of a PNG": saved("PNG", transparency=PHOTO.getpixel((0, 0))),
    "lossless WEBP": saved("WEBP", cut_out("RGBA"), lossless=True, exact=True),
    "WEBP": saved("WEBP", cut_out("RGBA"), exact=True),
    "animated WEBP": saved("WEBP", cut_out("RGBA"), save_all=True, append_images=[PHOTO.convert("RGBA")], exact=True),
    "GIF": saved("GIF", PALETTE, transparency=PALETTE.getpixel((0, 0))),
    "animated GIF": saved("GIF", PALETTE, transparency=PALETTE.getpixel((0, 0)), save_all=True, append_images=[PHOTO]),
}


FORMS = pytest.mark.parametrize("form", [decode, arrays], ids=["TensorFlow", "Pillow"])


@FORMS
@pytest.mark.parametrize("name", CUT_OUTS)
def test_transparent_pixels_show_the_background(name, form):
    limits = 50_000, MOST
    pixels = np.array(Image.open(io.BytesIO(CUT_OUTS[name])).convert("RGBA")).astype(int)
    color, alpha = pixels[..., :3], pixels[..., 3:]
    background = np.array([255, 120, 0])
    expected = np.round((color * alpha + background * (255 - alpha)) / 255)
    assert (expected != color).any()
    _, image = form.decoded(CUT_OUTS[name], *limits, background=(255, 120, 0))
    np.testing.assert_array_equal(image, expected)
    assert form.is_transparent(CUT_OUTS[name], *limits)


@FORMS
@pytest.mark.parametrize(
    "name", ["JPEG", "PNG", "black and white PNG", "GIF", "BMP", "RGBA BMP", "palette PNG", "WEBP", "lossless WEBP"]
)
def test_opaque_images_are_the_same_with_a_background(name, form):
    limits = 50_000, MOST
    _, image = form.decoded(FILES[name], *limits, background=(255, 120, 0))
    np.testing.assert_array_equal(image, by_pillow(FILES[name]))
    assert not form.is_transparent(FILES[name], *limits)


NOISE = Image.fromarray(np.random.default_rng(2).integers(0, 256, (37, 45, 3), np.uint8))  # no whole blocks of 8 or 16


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "gray"])
@pytest.mark.parametrize("quality", [30, 75, 100])
def test_every_pixel_of_a_jpeg_is_that_of_pillow(quality, subsampling):
    image, options = (NOISE.convert("L"), {}) if subsampling == "gray" else (NOISE, {"subsampling": subsampling})
    for progressive in (False, True):
        file = saved("JPEG", image, quality=quality, progressive=progressive, **options)
        np.testing.assert_array_equal(decoded(file)[1], by_pillow(file))


def test_the_fast_inverse_dct_is_what_earlier_versions_decoded_with():
    limits = 50_000, MOST
    for file in (saved("JPEG", NOISE), saved("JPEG", NOISE, progressive=True)):
        problem, image = decode.decoded(tf.constant(file), *limits, "fast")
        assert problem == ""
        np.testing.assert_array_equal(image, tf.io.decode_image(file, channels=3))
        assert np.abs(image.numpy().astype(int) - by_pillow(file)).max() > 0


def test_of_sixteen_bits_the_upper_eight_are_taken():
    deep = np.random.default_rng(1).integers(0, 2**16, (HEIGHT, WIDTH), dtype="uint16")
    _, image = decoded(saved("PNG", Image.fromarray(deep)))
    np.testing.assert_array_equal(image, np.repeat(deep[..., None] >> 8, 3, axis=2))


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_of_an_animation_the_first_frame_is_taken_and_no_other_is_decoded(kind):
    frames = [image.quantize(64) if kind == "GIF" else image for image in (PHOTO, PHOTO.rotate(180), PHOTO.rotate(90))]
    options = {"lossless": True} if kind == "WEBP" else {}
    animation = saved(kind, frames[0], save_all=True, append_images=frames[1:], duration=100, **options)
    assert Image.open(io.BytesIO(animation)).n_frames == 3
    first = by_pillow(saved(kind, frames[0], **options))
    second = animation.rindex(b"\x21\xf9\x04" if kind == "GIF" else b"ANMF")
    if kind == "GIF":
        spoiled = patched(animation, second + 13, "<HH", 60_000, 60_000)
    else:
        spoiled = animation[:second] + bytes(len(animation) - second)
    for file in (animation, spoiled):
        problem, image = decoded(file)
        assert problem == ""
        np.testing.assert_array_equal(image, first)


def tiff(orientation, order, *, kind=3, before=2):
    """An Exif block of `before` other tags and the orientation."""
    other = [struct.pack(order + "HHII", 0x0100 + k, 4, 1, 99) for k in range(before)]
    ours = struct.pack(
        order + ("HHII" if kind == 4 else "HHIHH"), *[0x0112, kind, 1, orientation, 0][: 4 + (kind != 4)]
    )
    mark = b"II*\x00" if order == "<" else b"MM\x00*"
    entries = b"".join([*other, ours])
    return (
        mark + struct.pack(order + "I", 12) + b"\x00" * 4 + struct.pack(order + "H", before + 1) + entries + b"\x00" * 4
    )


def with_exif(kind, block):
    return saved(kind, exif=b"Exif\x00\x00" + block, **({} if kind == "JPEG" else {"lossless": True}))


def test_the_orientation_of_a_png_may_be_behind_its_pixels():
    before = with_exif("PNG", tiff(6, "<"))
    start = before.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(before[start : start + 4], "big")
    iend = before.index(b"IEND") - 4
    behind = before[:start] + before[end:iend] + before[start:end] + before[iend:]
    np.testing.assert_array_equal(decoded(behind)[1], decoded(before)[1])
    assert decoded(behind)[1].shape != decoded(before[:start] + before[end:])[1].shape


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("type_of_number", [3, 4], ids=["short", "long"])
def test_an_image_stands_upright_by_each_of_the_eight_orientations(kind, order, type_of_number):
    seen = set()
    for orientation in range(1, 9):
        file = with_exif(kind, tiff(orientation, order, kind=type_of_number))
        problem, image = decoded(file)
        assert problem == ""
        np.testing.assert_allclose(image, by_pillow(file), atol=4 if kind == "JPEG" else 0)
        seen.add(image.tobytes())
    assert len(seen) == 8


@pytest.mark.parametrize(
    "block",
    [
        tiff(0, "<"),
        tiff(9, ">"),
        tiff(6, "<", kind=2),
        b"",
        b"II*\x00",
        b"II*\x00\xff\xff\xff\xff",
        b"MM\x00*\x7f\xff\xff\xff",
        b"XX*\x00" + tiff(6, "<")[4:],
        tiff(6, "<")[:-30],
    ],
    ids=["0", "9", "text", "nothing", "short", "far away", "farther", "no byte order", "cut"],
)
def test_an_orientation_that_cannot_be_read_turns_nothing(block):
    problem, image = decoded(with_exif("JPEG", block))
    assert problem == ""
    np.testing.assert_array_equal(image, decoded(FILES["JPEG"])[1])


def test_an_exif_block_behind_a_webp_is_not_its_own():
    behind = b"EXIF" + struct.pack("<I", 100) + tiff(6, "<") + bytes(100)
    np.testing.assert_array_equal(decoded(FILES["WEBP"] + behind)[1], by_pillow(FILES["WEBP"]))


def segment(marker, payload):
    return bytes([0xFF, marker]) + struct.pack(">H", len(payload) + 2) + payload


def test_the_exif_block_of_a_jpeg_is_found_behind_other_segments_and_holds_its_own_preview():
    preview = saved("JPEG", PHOTO.resize((20, 10)), exif=b"Exif\x00\x00" + tiff(3, "<"))
    jpeg = saved("JPEG")
    between = (
        segment(0xE0, b"JFIF\x00" + bytes(9)) + segment(0xE1, b"http://ns.adobe.com/xap/1.0/\x00<x/>") + b"\xff\xff"
    )
    exif = segment(0xE1, b"Exif\x00\x00" + tiff(6, ">") + preview)
    problem, image = decoded(jpeg[:2] + between + exif + segment(0xE2, preview) + jpeg[2:])
    assert problem == ""
    np.testing.assert_allclose(image, by_pillow(jpeg).transpose(1, 0, 2)[:, ::-1], atol=4)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_is_refused(name):
    end = len(FILES[name]) - 2 * ("GIF" in name)  # A GIF may lack its end mark and the empty block before it.
    for size in [*np.linspace(2, end - 2, 12).astype(int), end - 1]:
        problem, _ = decoded(FILES[name][:size])
        assert problem, size


@pytest.mark.parametrize("name", [name for name in FILES if "JPEG" in name and "progressive" not in name])
def test_a_jpeg_that_is_cut_before_an_end_mark_is_refused_unless_all_but_its_last_block_is_there(name):
    file = FILES[name]
    whole = decoded(file)[1]
    whole[-17:, -17:] = 0  # The last block, and the neighbors that its color bleeds into.
    start = file.index(b"\xff\xda") + 20
    refused = 0
    for size in range(start, len(file) - 2, 5):
        problem, image = decoded(file[:size] + b"\xff\xd9")
        refused += bool(problem)
        if not problem:
            image[-17:, -17:] = 0
            np.testing.assert_array_equal(image, whole)
    assert refused > 0.85 * (len(file) - start) / 5


def test_a_progressive_jpeg_that_is_cut_before_an_end_mark_is_refused_unless_its_last_scan_has_begun():
    file = FILES["progressive JPEG"]
    last = file.rindex(b"\xff\xda") + 10
    for size in range(file.index(b"\xff\xda"), len(file) - 2, 3):
        problem, image = decoded(file[:size] + b"\xff\xd9")
        assert bool(problem) == (size < last), size
        if not problem:  # At most the last bit of some coefficients is missing.
            np.testing.assert_allclose(image, by_pillow(file), atol=30)
            assert np.mean(np.abs(image - by_pillow(file))) < 3


def with_scans(count, before=b"", between=b""):
    """A progressive JPEG whose last scan is repeated, with bytes before the frame header and after the tenth scan."""
    file = FILES["progressive JPEG"]
    frame, last, end = file.index(b"\xff\xc2"), file.rindex(b"\xff\xda"), len(file) - 2
    return file[:frame] + before + file[frame:end] + between + file[last:end] * (count - 10) + file[end:]


def test_a_jpeg_of_more_than_32_scans_is_refused():
    assert FILES["progressive JPEG"].count(b"\xff\xda") == 10
    for count in (33, 200):
        assert decoded(with_scans(count))[0].startswith(f"{count} scans, expected at most 32. Save ")
        assert decoded(with_scans(count, before=b"\x00"))[0].startswith(f"{count} scans")  # decoders skip a stray byte
    for whole in (with_scans(32), with_scans(11), FILES["progressive JPEG"] + with_scans(200)):
        problem, image = decoded(whole)
        assert not problem
        np.testing.assert_allclose(image, by_pillow(whole), atol=30)


def test_an_end_mark_inside_a_comment_does_not_hide_scans():
    comment = b"\xff\xfe\x00\x06\xff\xd9ab"
    assert "cannot be decoded" in decoded(with_scans(200, between=comment))[0]
    for before in (comment, comment + b"\x00"):
        assert decoded(with_scans(200, before=before))[0].startswith("200 scans")


def test_a_jpeg_cut_at_a_restart_is_refused():
    file = saved("JPEG", restart_marker_blocks=2)
    restarts = [place for place in range(len(file)) if file[place] == 0xFF and 0xD0 <= file[place + 1] <= 0xD7]
    assert len(restarts) > 3
    for place in restarts:
        for cut in (file[:place], file[: place + 2]):
            assert "cannot be decoded" in decoded(cut + b"\xff\xd9")[0]


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_whole_jpeg_that_ends_in_gray_is_not_taken_for_a_cut_one(mode, progressive):
    values = {"RGB": (128, 128, 128), "L": 128, "CMYK": (127, 127, 127, 127)}
    image = PHOTO.convert(mode)
    image.paste(values[mode], (0, 20, WIDTH, HEIGHT))
    for restarts in (0, 2):
        file = saved("JPEG", image, progressive=progressive, restart_marker_blocks=restarts)
        problem, pixels = decoded(file)
        assert problem == ""
        np.testing.assert_allclose(pixels, by_pillow(file), atol=4)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (9, 1), (8, 8), (17, 33)])
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_are_no_multiple_of_a_block_are_read(kind, size):
    file = saved(kind, PHOTO.crop((0, 0, *size)))
    problem, image = decoded(file)
    assert problem == ""
    np.testing.assert_allclose(image, by_pillow(file), atol=4)


def patched(file, place, form, *values):
    size = struct.calcsize(form)
    return file[:place] + struct.pack(form, *values) + file[place + size :]


def frame_of_jpeg(file):
    return next(place for place in range(len(file)) if file[place : place + 2] in (b"\xff\xc0", b"\xff\xc2"))


def with_size(name, width, height):
    """The file with another size in its header, all else as it was."""
    file = FILES[name]
    if "JPEG" in name:
        return patched(file, frame_of_jpeg(file) + 5, ">HH", height, width)
    if "PNG" in name:
        return patched(file, 16, ">II", width, height)
    if "GIF" in name:
        return patched(file, file.index(b"\x2c", 13 + 3 * 2 ** (file[10] % 8 + 1)) + 5, "<HH", width, height)
    if "BMP" in name:
        return patched(file, 18, "<ii", width, height)
    if "lossless" in name:
        return patched(file, file.index(b"VP8L") + 9, "<I", (width - 1) | (height - 1) << 14)
    return patched(file, file.index(b"VP8 ") + 14, "<HH", width, height)


@pytest.mark.parametrize("name", ["JPEG", "progressive JPEG", "PNG", "GIF", "WEBP", "lossless WEBP"])
def test_a_header_of_too_many_pixels_is_refused_by_its_numbers(name):
    expected = f"12345 x 6789 pixels, expected at most {MOST}. Send a smaller image."
    assert decoded(with_size(name, 12345, 6789))[0] == expected


def test_sizes_whose_product_does_not_fit_are_refused():
    assert decoded(with_size("PNG", 2**32 - 1, 2**32 - 1))[0].startswith("4294967295 x 4294967295 pixels")
    for name in ("BMP", "palette BMP", "RGBA BMP"):
        for width, height in ((2**30, 2**30), (-1, -(2**31)), (2**31 - 1, 2**31 - 1), (0, 48), (64, 0)):
            assert "cannot be decoded" in decoded(with_size(name, width, height))[0]


def test_the_rows_of_a_bmp_may_be_stored_from_the_top():
    problem, image = decoded(with_size("BMP", WIDTH, -HEIGHT))
    assert problem == ""
    np.testing.assert_array_equal(image, np.array(PHOTO)[::-1])


@pytest.mark.parametrize("name", FILES)
def test_a_header_that_says_less_than_the_data_decodes_no_more_than_it_says(name):
    problem, image = decoded(with_size(name, 16, 8))
    assert problem or image.shape == (8, 16, 3)


def test_a_png_without_its_header_in_front_is_refused():
    file = FILES["PNG"]
    other = struct.pack(">I", 13) + b"teXt" + struct.pack(">II", 1, 1) + bytes(5 + 4)
    assert "cannot be decoded" in decoded(file[:8] + other + with_size("PNG", 9999, 9999)[8:])[0]


def test_a_frame_is_decoded_without_the_canvas_around_it():
    webp = with_exif("WEBP", tiff(1, "<"))
    assert webp[12:16] == b"VP8X"
    gif = patched(FILES["GIF"], 6, "<HH", 999, 70)
    moved = patched(gif, gif.index(b"\x2c", 13 + 3 * 2 ** (gif[10] % 8 + 1)) + 1, "<HH", 5, 3)
    for name, file in (("GIF", gif), ("GIF", moved), ("lossless WEBP", patched(webp, 24, "<BBB", 1, 1, 0))):
        problem, image = decoded(file)
        assert problem == ""
        np.testing.assert_array_equal(image, by_pillow(FILES[name]))


@FORMS
def test_limits_are_exact(form):
    file = FILES["PNG"]
    for most_bytes, most_pixels, message in (
        (len(file), HEIGHT * WIDTH, ""),
        (len(file) - 1, HEIGHT * WIDTH, f"{len(file)} bytes, expected at most {len(file) - 1}. Send a smaller file."),
        (
            len(file),
            HEIGHT * WIDTH - 1,
            f"64 x 48 pixels, expected at most {HEIGHT * WIDTH - 1}. Send a smaller image.",
        ),
    ):
        problem, _ = form.decoded(file, most_bytes, most_pixels)
        assert np.asarray(problem).item() in (message, message.encode())


@pytest.mark.parametrize("file", [b"", b"\xff", b"RIFF\x00\x00\x00\x00WAVE", bytes(50)])
def test_what_is_not_an_image_is_said(file):
    expected = f"{len(file)} bytes that are not an image, expected a JPEG, PNG, GIF, BMP or WebP file."
    assert decoded(file)[0] == expected


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\0\0\0\x18ftypheic", "a HEIC file"),
        (b"\0\0\0\x1cftypmif1", "a HEIC file"),
        (b"\0\0\0 ftypavif", "an AVIF file"),
        (b"II*\0", "a TIFF file"),
        (b"MM\0*", "a TIFF file"),
        (b"%PDF-1.7", "a PDF file"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_what_to_do(start, name):
    file = start + bytes(50)
    expected = (
        f"{len(file)} bytes that are {name}, expected a JPEG, PNG, GIF, BMP or WebP file. Convert it, for example"
    )
    assert decoded(file)[0] == f"{expected} by ImageMagick."


@pytest.mark.parametrize("lossless", [False, True])
def test_a_webp_whose_end_is_zeros_is_refused(lossless):
    file = saved("WEBP", lossless=lossless)
    assert decoded(file)[0] == ""
    assert "cannot be decoded" in decoded(file[: 2 * len(file) // 3] + bytes(len(file) - 2 * len(file) // 3))[0]


def test_damaged_files_give_an_image_within_the_limit_or_a_reason():
    draw, alike = np.random.default_rng(2), []
    for name, file in FILES.items():
        for _ in range(15):
            damaged = np.frombuffer(file, np.uint8).copy()
            places = draw.integers(0, min(len(file), draw.choice([40, 400, len(file)])), draw.integers(1, 5))
            damaged[places] = draw.choice([0, 1, 127, 255, *draw.integers(0, 256, 4)], len(places))
            found = [by_tensors(damaged.tobytes()), arrays.decoded(damaged.tobytes(), 50_000, MOST)]
            assert all(problem or image.shape[0] * image.shape[1] <= MOST for problem, image in found), name
            alike.append(bool(found[0][0]) == bool(found[1][0]))
            if not found[0][0] and not found[1][0]:
                np.testing.assert_array_equal(found[1][1], found[0][1])
    assert np.mean(alike) > 0.97


def test_a_file_of_many_small_blocks_is_given_up():
    def gif(count):
        return FILES["GIF"][:start] + b"\x21\xfe" + b"\x01a\x02bc" * count + b"\x00" + FILES["GIF"][start:]

    start = 13 + 3 * 2 ** (FILES["GIF"][10] % 8 + 1)
    assert decoded(gif(4_000))[0] == ""
    blocks = {
        "GIF": gif(8_000),
        "GIF of extensions": FILES["GIF"][:start] + b"\x21\xfe\x00" * 8_000 + FILES["GIF"][start:],
        "JPEG": b"\xff\xd8" + b"\xff\xe0\x00\x02" * 12_000,
        "WEBP": b"RIFF" + struct.pack("<I", 49_000) + b"WEBP" + b"none\x00\x00\x00\x00" * 6_000,
    }
    for name, file in blocks.items():
        assert decoded(file)[0], name
