/** Pixels as tfdml.datasets.Preprocessing gives them to a network. */

const LUMA = [0.299, 0.587, 0.114];

export const pair = (value) => (Array.isArray(value) ? value : [value, value]);

/** The triangle filter of `size` samples from `start` on, when `old` samples become `side`: first sample and weights. */
function triangles(old, side, start, size) {
  const scale = old / side;
  const radius = Math.max(scale, 1);
  return Array.from({ length: size }, (_, sample) => {
    const center = (sample + start + 0.5) * scale;
    const first = Math.max(0, Math.ceil(center - radius - 0.5));
    const last = Math.min(old - 1, Math.floor(center + radius - 0.5));
    const count = last - first + 1;
    const weights = Array.from({ length: count }, (_, each) => 1 - Math.abs(first + each + 0.5 - center) / radius);
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return { first, weights: weights.map((weight) => weight / sum) };
  });
}

/** RGB pixels of a window of a resized image, as floats: bilinear with antialiasing, as tf.image.resize. */
function resized({ data, width, height }, sides, start, size) {
  const [rows, columns] = [triangles(height, sides[0], start[0], size[0]), triangles(width, sides[1], start[1], size[1])];
  const narrow = new Float32Array(height * size[1] * 3);
  for (let y = 0; y < height; y++)
    columns.forEach(({ first, weights }, x) =>
      weights.forEach((weight, each) => {
        for (let c = 0; c < 3; c++) narrow[(y * size[1] + x) * 3 + c] += weight * data[(y * width + first + each) * 4 + c];
      }),
    );
  const pixels = new Float32Array(size[0] * size[1] * 3);
  rows.forEach(({ first, weights }, y) =>
    weights.forEach((weight, each) => {
      for (let x = 0; x < size[1] * 3; x++) pixels[y * size[1] * 3 + x] += weight * narrow[(first + each) * size[1] * 3 + x];
    }),
  );
  return pixels;
}

/** The nearest whole number, the even one of two, as TensorFlow rounds. */
function rounded(x) {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

/** RGBA pixels over a color, as tfdml.datasets.Preprocessing blends them; as they are without a background. */
function onto({ data, width, height }, background) {
  if (background === undefined) return { data, width, height };
  const color = Array.isArray(background) ? background : [background, background, background];
  const over = (level, alpha, c) => Math.floor((level * alpha + color[c] * (255 - alpha) + 127) / 255);
  const level = (value, each) => (each % 4 === 3 ? 255 : over(value, data[each - (each % 4) + 3], each % 4));
  return { data: Uint8Array.from(data, level), width, height };
}

/** The pixels that a box touches, with its margin, as tfdml.datasets.Preprocessing cuts them; all without a box. */
export function cut({ data, width, height }, box, margin) {
  if (box === undefined) return { data, width, height };
  const sides = [width, height];
  const [start, end] = [sides.map((_, axis) => Math.max(box[axis], 0)), sides.map((side, axis) => Math.min(box[axis + 2], side))];
  const grow = sides.map((_, axis) => margin * (end[axis] - start[axis]));
  const first = start.map((border, axis) => Math.floor(Math.max(border - grow[axis], 0)));
  const last = end.map((border, axis) => Math.ceil(Math.min(border + grow[axis], sides[axis])));
  const [columns, rows] = [last[0] - first[0], last[1] - first[1]];
  const pixels = new Uint8Array(4 * columns * rows);
  for (let y = 0; y < rows; y++) {
    const corner = 4 * ((first[1] + y) * width + first[0]);
    pixels.set(data.slice(corner, corner + 4 * columns), 4 * columns * y);
  }
  return { data: pixels, width: columns, height: rows };
}

/** Pixels of the size that the network takes, as tfdml.datasets.Preprocessing gives them: uint8, row by row. */
export function fitted(picture, { size, resize, fit, fill, channels, background }) {
  const image = onto(picture, background);
  const result = pair(size);
  const target = pair(resize ?? size);
  const old = [image.height, image.width];
  const scales = target.map((side, axis) => side / old[axis]);
  const scale = fit === "pad" ? Math.min(...scales) : Math.max(...scales);
  const sides = fit === "stretch" ? target : old.map((side) => Math.max(1, rounded(side * scale)));
  const corner = target.map((side, axis) => Math.trunc((side - result[axis]) / 2) + Math.trunc((sides[axis] - side) / 2));
  const start = corner.map((first) => Math.max(first, 0));
  const end = corner.map((first, axis) => Math.min(first + result[axis], sides[axis]));
  const window = [end[0] - start[0], end[1] - start[1]];
  const pixels = resized(image, sides, start, window);
  const color = Array.isArray(fill) ? fill : [fill, fill, fill];
  const rgb = Float32Array.from({ length: result[0] * result[1] * 3 }, (_, each) => color[each % 3]);
  for (let y = 0; y < window[0]; y++) {
    const row = (y + start[0] - corner[0]) * result[1] + start[1] - corner[1];
    rgb.set(pixels.subarray(y * window[1] * 3, (y + 1) * window[1] * 3), row * 3);
  }
  if (channels === 3) return Uint8Array.from(rgb, rounded);
  const gray = (_, each) => rounded(LUMA.reduce((sum, weight, c) => sum + weight * rgb[3 * each + c], 0));
  return Uint8Array.from({ length: result[0] * result[1] }, gray);
}
