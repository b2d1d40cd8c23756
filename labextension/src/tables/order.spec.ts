import { ordered, passes } from './order';

const place = (cell: string): number | null => (cell.startsWith('-') ? null : parseInt(cell, 10));

test('rows are ordered by place; what has none is last in both directions; equal ones stay as given', () => {
  const given = ['-a', '2a', '0', '2b', '-b', '1'];
  expect(ordered(given, place, false)).toEqual(['0', '1', '2a', '2b', '-a', '-b']);
  expect(ordered(given, place, true)).toEqual(['2a', '2b', '1', '0', '-a', '-b']);
  expect(given[0]).toBe('-a');
});

test('a row passes where each word is in a cell, whatever the case', () => {
  const cells = ['layer.0.Weight', '0.13', '预热'];
  for (const filter of ['', '  ', 'weight', '0.13 LAYER', '预热 weight']) {
    expect(passes(cells, filter)).toBe(true);
  }
  for (const filter of ['bias', 'weight 0.14', 'weight0.13']) {
    expect(passes(cells, filter)).toBe(false);
  }
});
