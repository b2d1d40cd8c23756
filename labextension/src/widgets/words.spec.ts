import { format, formatX, tick } from './words';

test('values have their unit', () => {
  expect(format('B', 1536)).toBe('1.5 KiB');
  expect(format('s', 0.35)).toBe('350 ms');
  expect(format('%', 71)).toBe('71 %');
  expect(format('', 0.00031415)).toBe('3.142e-4');
  expect(format('B', null)).toBe('–');
});

test('steps and times on the axis', () => {
  expect(formatX('step', 12.4)).toBe('step 12');
  expect(formatX('time', 0)).toMatch(/\d:\d\d/);
  expect(tick(999)).toBe('999');
  expect(tick(12_500)).toBe('12.5k');
  expect(tick(1_000_000)).toBe('1M');
  expect(tick(2.5)).toBe('');
});
