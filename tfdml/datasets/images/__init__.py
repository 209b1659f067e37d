"""Image files to pixels: in graphs of TensorFlow, the same for training and serving, or by Pillow and NumPy."""

MAX_BYTES = 20 * 2**20  # The largest photos of phones.
MAX_PIXELS = 2**26  # 8192 x 8192, for 64-megapixel cameras: 200 MB decoded.
MAX_SCANS = 32  # Of a JPEG, each decoded at the size of the whole image; ordinary progressive files have ten.
