import { Curves, decode, firstAtLeast, Message, middle, stacked } from './curvesData';

function message(series: object[], wide: number[], narrow: number[]): [Message, DataView[]] {
  const labels = { loss: { label: 'loss', unit: '', group: 'loss' } };
  // An offset that is no multiple of eight, as a websocket gives it.
  const bytes = new Uint8Array(3 + wide.length * 8);
  bytes.set(new Uint8Array(Float64Array.from(wide).buffer), 3);
  const views = [new DataView(bytes.buffer, 3), new DataView(Float32Array.from(narrow).buffer)];
  return [{ kind: 'whole', seq: 1, x: 'step', series, labels } as Message, views];
}

const head = { name: 'loss', ranks: [0], marks: 0, per_point: 1, complete: true };

test('columns are read from wherever they begin, with the marks of what was not finite', () => {
  const [m, buffers] = message([{ ...head, n: 3, ranks: [0, 4], marks: 1 }], [1, 2, 3, 2], [5, NaN, 7, 8, 9, Infinity]);
  const [curve] = decode(m, buffers);
  expect(curve.x).toEqual([1, 2, 3]);
  expect(curve.columns).toEqual([
    [5, null, 7],
    [8, 9, null]
  ]);
  expect(curve.marks).toEqual([2]);
  expect(curve.group).toBe('loss');
});

test('a tail replaces what it overlaps and is appended', () => {
  const curves = new Curves();
  curves.whole(decode(...message([{ ...head, n: 3, marks: 1 }], [1, 2, 3, 3], [10, 20, 30])));
  expect(curves.tail(decode(...message([{ ...head, n: 2 }], [3, 4], [31, 41])))).toBe(true);
  const curve = curves.byName.get('loss');
  expect(curve?.x).toEqual([1, 2, 3, 4]);
  expect(curve?.columns).toEqual([[10, 20, 31, 41]]);
  expect(curve?.marks).toEqual([]);
  expect(curves.extent).toEqual([1, 4]);
});

test('a tail of other ranks, or of a series that is new, does not fit', () => {
  const curves = new Curves();
  const [m, buffers] = message([{ ...head, n: 1 }], [1], [1]);
  expect(curves.tail(decode(m, buffers))).toBe(false);
  curves.whole(decode(m, buffers));
  expect(curves.tail(decode(...message([{ ...head, n: 1, ranks: [1] }], [2], [1])))).toBe(false);
  expect(curves.tail(decode(...message([{ ...head, n: 1, ranks: null }], [2], [1, 2, 3])))).toBe(false);
});

test('a band has its own middle; of lines it is the median of those that have a value', () => {
  const [band] = decode(...message([{ ...head, n: 1, ranks: null }], [1], [1, 2, 9]));
  expect(middle(band)).toEqual([2]);
  const [lines] = decode(...message([{ ...head, n: 2, ranks: [0, 1, 2] }], [1, 2], [1, NaN, 3, NaN, 8, NaN]));
  expect(middle(lines)).toEqual([3, null]);
});

test('parts are stacked; pairs of least and greatest become their mean', () => {
  const part = (values: number[], per_point: number) =>
    decode(...message([{ ...head, n: values.length, per_point }], [...values.keys()], values))[0];
  expect(stacked([part([1, 2], 1), part([10, 20], 1)]).sums).toEqual([
    [1, 2],
    [11, 22]
  ]);
  const thinned = stacked([part([1, 3], 4), part([20, 10], 4)]);
  expect(thinned.x).toEqual([0]);
  expect(thinned.own).toEqual([[2], [15]]);
  expect(thinned.sums).toEqual([[2], [17]]);
});

test('where a value would come is found also at the ends', () => {
  expect(firstAtLeast([1, 3, 5], 0)).toBe(0);
  expect(firstAtLeast([1, 3, 5], 3)).toBe(1);
  expect(firstAtLeast([1, 3, 5], 6)).toBe(3);
  expect(firstAtLeast([], 1)).toBe(0);
});
