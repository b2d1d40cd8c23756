import { bytes, duration, number, percent } from './format';

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [1536, '1.5 KiB'],
  [1024 ** 2 - 1, '1.0 MiB'],
  [141 * 1024 ** 3, '141 GiB'],
  [-2048, '-2.0 KiB'],
  [null, '–'],
  [NaN, '–']
])('%p bytes are shown as %s', (value, shown) => expect(bytes(value)).toBe(shown));

test.each([
  [0, '0.0 ms'],
  [0.0004, '0.4 ms'],
  [0.35, '350 ms'],
  [0.99996, '1.0 s'],
  [12.34, '12.3 s'],
  [59.99, '1 min 00 s'],
  [245, '4 min 05 s'],
  [3599.9, '1 h 00 min'],
  [11220, '3 h 07 min'],
  [183600, '2 d 3 h'],
  [-1, '–'],
  [undefined, '–']
])('%p seconds are shown as %s', (value, shown) => expect(duration(value)).toBe(shown));

test.each([
  [2.5, '2.5'],
  [0.00031415, '3.142e-4'],
  [1234567, '1234567'],
  [1.5e12, '1.5e12'],
  [0.1 + 0.2, '0.3'],
  [NaN, 'NaN'],
  [-Infinity, '-Inf'],
  [null, '–']
])('%p is shown as %s', (value, shown) => expect(number(value)).toBe(shown));

test('a small share keeps a digit', () => {
  expect([percent(0), percent(0.031), percent(0.998), percent(null)]).toEqual(['0 %', '3.1 %', '100 %', '–']);
});
