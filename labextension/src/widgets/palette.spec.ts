import { blend, channels, isDark } from './palette';

test('colours are read as a theme may give them', () => {
  expect(channels('#fff')).toEqual([255, 255, 255]);
  expect(channels('#102030')).toEqual([16, 32, 48]);
  expect(channels('rgb(1, 2, 3)')).toEqual([1, 2, 3]);
  expect(channels('rgba(1 2 3 / 50%)')).toEqual([1, 2, 3]);
  expect(channels('oklch(1 0 0)')).toBeUndefined();
});

test('dark and light', () => {
  expect(isDark('#111111')).toBe(true);
  expect(isDark('black')).toBe(true);
  expect(isDark('white')).toBe(false);
  expect(isDark('no colour')).toBe(false);
});

test('a share of a colour on another', () => {
  expect(blend('#000000', '#ffffff', 0.75)).toBe('rgb(64, 64, 64)');
  expect(blend('nothing', '#ffffff', 0.5)).toBe('nothing');
});
