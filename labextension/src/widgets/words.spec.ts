import { format, formatX, stepTicks, tick } from './words';

test('values have their unit', () => {
  expect(format('B', 1536)).toBe('1.5 KiB');
  expect(format('s', 0.35)).toBe('350 ms');
  expect(format('%', 71)).toBe('71 %');
  expect(format('', 0.00031415)).toBe('3.142e-4');
  expect(format('B', null)).toBe('–');
});

test('steps and times on the axis', () => {
  expect(formatX('step', 12.4, null)).toBe('step 12');
  expect(formatX('step', 741, 628)).toBe('step 1,369');
  expect(formatX('time', 0, 628)).toMatch(/\d:\d\d/);
  expect(tick(999)).toBe('999');
  expect([1_234_550, 1_234_560].map(tick)).toEqual(['1,234,550', '1,234,560']);
  expect(tick(2.5)).toBe('');
});

test.each([
  [0, 1100, 500, null, [0, 500, 1000]],
  [1, 1103, 500, 628, [372, 872]], // steps 1,000 and 1,500
  [5, 8, 500, 628, []],
  [1, 3, 0.5, null, [1, 1.5, 2, 2.5, 3]]
])('ticks of %p to %p, %p apart, stand at round numbers as they are shown', (min, max, apart, ahead, at) => {
  expect(stepTicks(min, max, apart, ahead)).toEqual(at);
});
