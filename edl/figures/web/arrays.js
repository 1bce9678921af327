// Arrays in the data of a page: base64 of little-endian numbers, as `encode` in edl/figures/panel.py writes them.

const READERS = {
  float32: (view, i) => view.getFloat32(4 * i, true),
  int16: (view, i) => view.getInt16(2 * i, true),
  uint8: (view, i) => view.getUint8(i),
};
const BYTES = { float32: 4, int16: 2, uint8: 1 };

/** The numbers of `{type, shape, data, scale?}` as doubles, in row-major order. */
export function decodeArray({ type, data, scale = 1 }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  const numbers = new Float64Array(bytes.length / BYTES[type]);
  for (let i = 0; i < numbers.length; i++) numbers[i] = READERS[type](view, i) * scale;
  return numbers;
}

/** The rows of a matrix as an array of Float64Arrays. */
export function decodeRows(array) {
  const numbers = decodeArray(array);
  const [rows, columns] = array.shape;
  return Array.from({ length: rows }, (_, i) => numbers.subarray(i * columns, (i + 1) * columns));
}
