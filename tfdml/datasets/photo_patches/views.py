"""Deterministic views of places in photographs: the same pixels on every machine, in any order, in any chunk.

The random numbers of a view are a function of its key alone. Coordinates, interpolation, blur, gamma and JPEG use whole
numbers, also where they are held in float64, so that no sum depends on its order; what is left works on one pixel.
"""

import zlib

import numpy as np

from tfdml.datasets.glyphs.distortion import gaussian, mix, uniform, words

SIDE = 64

# Ranges of the uniform parameters of a view, in the order in which they are drawn.
RANGES = {
    "rotation": (-20.0, 20.0),  # degrees
    "zoom": (-0.3, 0.3),  # the support is SUPPORT * 2^zoom pixels of the photograph
    "stretch": (0.0, 0.25),  # 2^stretch along a direction, 2^-stretch across it
    "direction": (0.0, 180.0),  # degrees, of the stretch
    "perspective_x": (-0.10, 0.10),  # at half the side
    "perspective_y": (-0.10, 0.10),
    "shift_x": (-2.5, 2.5),  # pixels of the photograph
    "shift_y": (-2.5, 2.5),
    "blur": (0.0, 1.6),  # pixels of the view
    "gamma": (-0.7, 0.7),  # the exponent is 2^gamma
    "red": (-0.4, 0.4),  # the gain is 2^red
    "green": (-0.4, 0.4),
    "blue": (-0.4, 0.4),
    "saturation": (0.3, 1.3),
    "shading_x": (-0.3, 0.3),  # at half the side
    "shading_y": (-0.3, 0.3),
    "shadow_direction": (0.0, 360.0),  # degrees
    "shadow_offset": (0.0, 0.7),  # half sides from the middle
    "shadow": (0.0, 0.6),  # share of the light that is missing
    "cover_radius": (0.2, 0.5),  # half sides
    "cover_distance": (0.6, 1.1),  # half sides from the middle to the middle of the disc
    "cover_direction": (0.0, 360.0),  # degrees
    "cover_red": (0.0, 255.0),
    "cover_green": (0.0, 255.0),
    "cover_blue": (0.0, 255.0),
    "contrast": (0.5, 1.1),
    "brightness": (-0.1, 0.1),  # of full scale
    "noise": (0.01, 0.05),  # of full scale
    "quality": (20.0, 86.0),  # of JPEG, rounded down
}
SUPPORT = 48.0  # pixels of the photograph that a view spans at zoom 0
_TAPS = 9  # of the blur
_FINE = 1 << 10  # parameters are rounded to this share of their unit where a library computed them
_NOISE_START = 64  # the first word of the noise in the stream of a key

_CENTERED = (np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 2)  # pixels in half sides


def view_keys(photograph: str, keypoints: np.ndarray, view: int) -> np.ndarray:
    """Key of a view of each keypoint, `(n,)` uint64; `keypoints` are `(n, 2)` x and y below 2^16."""
    x, y = keypoints.astype(np.uint64).T
    name = np.uint64(zlib.crc32(photograph.encode()))
    return mix(mix((name << np.uint64(32)) | (y << np.uint64(16)) | x) + np.uint64(view))


def views(photograph: np.ndarray, keypoints: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """A view of each place, `(n, 64, 64, 3)` uint8, by keypoints `(n, 2)`, x and y, and the keys of `view_keys`."""
    p = _parameters(keys)
    image = _bilinear(photograph, *_coordinates(p, keypoints))
    image = _light(_gamma(_blur(image, p["blur"]), p["gamma"]), p)
    image = _covered(_shaded(image, p), p)
    image = np.float32(128) + _column(p["contrast"]) * (image - np.float32(128)) + _column(255 * p["brightness"])
    noise = gaussian(words(keys, _NOISE_START, 3 * SIDE**2)).reshape(image.shape)
    image = np.clip(np.rint(image + _column(255 * p["noise"]) * noise), 0, 255).astype(np.uint8)
    return jpeg(image, np.floor(p["quality"]).astype(np.int64))


def jpeg(images: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """Simulate baseline JPEG without chroma subsampling, of `(n, 64, 64, 3)` uint8 and qualities `(n,)` from 1 to 100.

    The quantization tables come from annex K of the standard, scaled as in libjpeg; all numbers are whole, and exact.
    """
    tables = np.tile(_quantization(quality), (1, 1, SIDE // 8, SIDE // 8))
    channels = np.ascontiguousarray(np.moveaxis(_to_ycc(images), -1, 1))
    coefficients = np.rint(_COSINES @ channels @ _COSINES.T / (2.0**26 * tables))
    channels = np.rint(_COSINES.T @ (coefficients * tables) @ _COSINES / 2.0**26)
    return _to_rgb(np.moveaxis(np.clip(channels, -128, 127), 1, -1))


def _parameters(keys):
    """Dict of `(n,)` float64."""
    u = uniform(words(keys, 0, len(RANGES))).astype(np.float64)
    return {name: low + (high - low) * u[:, i] for i, (name, (low, high)) in enumerate(RANGES.items())}


def _coordinates(p, keypoints):
    """Where each pixel of a view comes from, in 1/256 pixels of the photograph: two `(n, 64, 64)` int32.

    place + shift + support / 2 * R (stretch) q with q = (u, v) / (1 + perspective . (u, v)), u and v in half sides.
    """
    p = {name: values[:, None, None] for name, values in p.items()}
    u, v = _CENTERED[None, None, :], _CENTERED[None, :, None]
    w = 1 + p["perspective_x"] * u + p["perspective_y"] * v
    along = _turned(u / w, v / w, -p["direction"])
    stretched = 2 ** p["stretch"] * along[0], 2 ** -p["stretch"] * along[1]
    x, y = _turned(*stretched, p["direction"] + p["rotation"])
    half = SUPPORT / 2 * 2 ** p["zoom"]
    shifts = (half * x + p["shift_x"], half * y + p["shift_y"])
    return [np.rint(256 * (keypoints[:, i, None, None] + shift)).astype(np.int32) for i, shift in enumerate(shifts)]


def _turned(x, y, degrees):
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return cos * x - sin * y, sin * x + cos * y


def _bilinear(photograph, x, y):
    """Pixels between four of the photograph, `(n, 64, 64, 3)` int32 in 1/256 grey levels; its border repeats."""
    height, width = photograph.shape[:2]
    column, row = x >> 8, y >> 8
    x_fraction, y_fraction = (x & 255)[..., None], (y & 255)[..., None]
    columns = [np.clip(column + i, 0, width - 1) for i in (0, 1)]
    rows = [np.clip(row + i, 0, height - 1) for i in (0, 1)]
    flat = photograph.reshape(-1, 3).astype(np.int32)
    upper, lower = (
        256 * (left := flat[r * width + columns[0]]) + x_fraction * (flat[r * width + columns[1]] - left) for r in rows
    )
    return (256 * upper + y_fraction * (lower - upper) + 128) >> 8


def _blur(image, sigma):
    """Gaussian blur of 9 taps each way, with weights in 1/4096; the border repeats."""
    reach = _TAPS // 2
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / np.maximum(sigma, 0.05)[:, None]) ** 2)
    taps = np.rint(4096 * taps / taps.sum(axis=1, keepdims=True)).astype(np.int32)
    taps[:, reach] += 4096 - taps.sum(axis=1)
    for axis in (1, 2):
        padding = [(reach, reach) if a == axis else (0, 0) for a in range(4)]
        padded = np.moveaxis(np.pad(image, padding, mode="edge"), axis, 0)
        terms = (taps[:, i].reshape(-1, 1, 1) * padded[i : i + SIDE] for i in range(_TAPS))
        image = np.moveaxis((sum(terms) + 2048) >> 12, 0, axis)
    return image


def _gamma(image, gamma):
    """The gamma curve of each image by a table of 256 grey levels: `(n, 64, 64, 3)` float32 grey levels."""
    levels = np.arange(256) / 255
    table = np.rint(255 * _FINE * levels ** (2.0**gamma)[:, None]) / _FINE
    level = np.clip((image + 128) >> 8, 0, 255)
    return np.take_along_axis(table.astype(np.float32), level.reshape(len(image), -1), axis=1).reshape(image.shape)


def _light(image, p):
    """Gain of each channel, then saturation: `luma + saturation (image - luma)`."""
    image = image * _rounded(2.0 ** np.stack([p["red"], p["green"], p["blue"]], axis=1))[:, None, None]
    red, green, blue = (image[..., i : i + 1] for i in range(3))
    luma = np.float32(0.299) * red + np.float32(0.587) * green + np.float32(0.114) * blue
    return luma + _column(p["saturation"]) * (image - luma)


def _shaded(image, p):
    """Light that falls off linearly, and the shadow of a straight edge."""
    u, v = _CENTERED[None, None, :], _CENTERED[None, :, None]
    x, y, direction = (p[name][:, None, None] for name in ("shading_x", "shading_y", "shadow_direction"))
    light = 1 + x * u + y * v
    across, _ = _turned(u, v, -direction)
    light = np.where(across > p["shadow_offset"][:, None, None], light * (1 - p["shadow"][:, None, None]), light)
    return image * _rounded(light)[..., None]


def _covered(image, p):
    """A disc of one color over part of the view."""
    x, y = _turned(p["cover_distance"], 0.0, p["cover_direction"])
    apart = (_CENTERED[None, None, :] - x[:, None, None]) ** 2 + (_CENTERED[None, :, None] - y[:, None, None]) ** 2
    color = np.rint(np.stack([p["cover_red"], p["cover_green"], p["cover_blue"]], axis=1)).astype(np.float32)
    hidden = apart < p["cover_radius"][:, None, None] ** 2
    return np.where(hidden[..., None], color[:, None, None], image)


def _rounded(x):
    return (np.rint(x * _FINE) / _FINE).astype(np.float32)


def _column(x):
    """One number per image, to be combined with images."""
    return _rounded(x)[:, None, None, None]


_LUMINANCE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)
_CHROMINANCE = np.full((8, 8), 99)
_CHROMINANCE[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]

_FREQUENCIES = np.arange(8)[:, None]
_COSINES_8 = np.where(_FREQUENCIES == 0, np.sqrt(1 / 8), 0.5) * np.cos(
    (2 * np.arange(8) + 1) * _FREQUENCIES * np.pi / 16
)
_COSINES = np.kron(np.eye(SIDE // 8), np.rint(2.0**13 * _COSINES_8))  # of all blocks of a row


def _quantization(quality):
    """The table of luminance, then twice the table of chrominance: `(n, 3, 8, 8)` float64."""
    scale = np.where(quality < 50, 5000 // quality, 200 - 2 * quality)[:, None, None, None]
    tables = np.stack([_LUMINANCE, _CHROMINANCE, _CHROMINANCE])
    return np.clip((tables * scale + 50) // 100, 1, 255).astype(np.float64)


def _to_ycc(images):
    """Y - 128, Cb and Cr in whole numbers, `(..., 3)` float64, by the 16-bit factors of libjpeg."""
    red, green, blue = (images[..., i].astype(np.int64) for i in range(3))
    luma = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
    cb = (-11059 * red - 21709 * green + 32768 * blue + 32767) >> 16
    cr = (32768 * red - 27439 * green - 5329 * blue + 32767) >> 16
    return np.stack([luma - 128, cb, cr], axis=-1).astype(np.float64)


def _to_rgb(pixels):
    luma, cb, cr = (pixels[..., i].astype(np.int64) for i in range(3))
    luma = luma + 128
    red = luma + ((91881 * cr + 32768) >> 16)
    green = luma + ((-22554 * cb - 46802 * cr + 32768) >> 16)
    blue = luma + ((116130 * cb + 32768) >> 16)
    return np.clip(np.stack([red, green, blue], axis=-1), 0, 255).astype(np.uint8)
