import { ALL, panned, parseRanks, zoomed } from './range';

const EXTENT: [number, number] = [0, 1000];

test('zooming in halves about the middle or about a point, zooming out ends with all', () => {
  expect(zoomed(ALL, EXTENT, 0.5)).toEqual({ first: 250, last: 750 });
  expect(zoomed(ALL, EXTENT, 0.5, 1000)).toEqual({ first: 500, last: 1000 });
  expect(zoomed({ first: 250, last: 750 }, EXTENT, 4)).toEqual(ALL);
  expect(zoomed({ first: 500, last: 501 }, EXTENT, 0.5)).toEqual({ first: 500, last: 501 });
});

test('panning stops at the ends, and all of it cannot be panned', () => {
  expect(panned({ first: 100, last: 200 }, EXTENT, 0.5)).toEqual({ first: 150, last: 250 });
  expect(panned({ first: 950, last: 1000 }, EXTENT, 0.5)).toEqual({ first: 950, last: 1000 });
  expect(panned({ first: 10, last: 110 }, EXTENT, -0.5)).toEqual({ first: 0, last: 100 });
  expect(panned(ALL, EXTENT, 0.5)).toEqual(ALL);
});

test('ranks are numbers and ranges; what is wrong is said', () => {
  const known = [...Array(300).keys()];
  expect(parseRanks('', known, 8)).toBeNull();
  expect(parseRanks(' all ', known, 8)).toBeNull();
  expect(parseRanks('0-3, 7', known, 8)).toEqual([0, 1, 2, 3, 7]);
  expect(parseRanks('7 7;3', known, 8)).toEqual([3, 7]);
  expect(parseRanks('x', known, 8)).toContain('no rank');
  expect(parseRanks('<b>', known, 8)).toContain('"<b>"');
  expect(parseRanks('300', known, 8)).toBe('there is no rank 300');
  expect(parseRanks('9-3', known, 8)).toContain('no range');
  expect(parseRanks('0-99', known, 8)).toContain('at most 8');
  expect(parseRanks('500-600', known, 8)).toContain('none');
});
