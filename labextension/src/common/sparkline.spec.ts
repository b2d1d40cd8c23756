import { extent, inWords, path } from './sparkline';

test('the greatest is at the top, the least at the bottom', () => {
  expect(path([0, 2, 1], 100, 20)).toBe('M0 20L50 0L100 10');
});

test('what is missing is a gap, and a lone point is still drawn', () => {
  expect(path([1, null, 3, null, NaN, 2, 1], 60, 10)).toBe('M0 10L0 10M20 0L20 0M50 5L60 10');
});

test('a constant runs through the middle, nothing is nothing', () => {
  expect(path([5, 5], 10, 8)).toBe('M0 4L10 4');
  expect([path([], 10, 8), path([null, NaN], 10, 8)]).toEqual(['', '']);
  expect(extent([null])).toBeNull();
});

test('words say how it went', () => {
  expect(inWords([2.5, 0.5, 1], String)).toBe('from 2.5 to 1, lowest 0.5, highest 2.5');
  expect(inWords([2.5, null], String)).toBe('from 2.5 to not a number, lowest 2.5, highest 2.5');
  expect(inWords([], String)).toBe('no values yet');
});
