import { Cell, hash, indexOf } from './cells';

const cell = (source: string, count: number | null = null, running = false): Cell => ({ source, count, running });
const file = (source: string): string => `/tmp/ipykernel_77/${hash(source)}.py`;

test.each([
  ['', 3990065800],
  ['a', 2167009006],
  ['ab', 2805137849],
  ['abc', 3350977461],
  ['x = 1\nprint(x)\n', 1538517086],
  ['# 预热\ntime.sleep(9)', 2651586415]
])('the kernel calls the cell %j %d', (source, name) => expect(hash(source)).toBe(name));

test('a cell is found by what it is, whatever its number', () => {
  const cells = [cell('old', 4), cell('step()', 9), cell('a\nb', null, true)];
  expect(indexOf(cells, { file: file('step()'), line: 1, cell: 4 })).toBe(1);
  expect(indexOf(cells, { file: file('a\nb'), line: 2, cell: null })).toBe(2);
});

test('of equal ones it is the one with that number, or the one that runs', () => {
  const cells = [cell('step()', 3), cell('step()', 4), cell('step()', null, true)];
  const place = (count: number): number => indexOf(cells, { file: file('step()'), line: 1, cell: count });
  expect([place(4), place(3), place(7)]).toEqual([1, 0, 2]);
});

test('one that was changed since is found by its number, or since it runs and has so many lines', () => {
  const cells = [cell('one', 4), cell('two', null, true), cell('three\nlines\nlong', null, true)];
  const place = (count: number | null, line: number): number =>
    indexOf(cells, { file: file('other'), line, cell: count });
  expect([place(4, 1), place(5, 1), place(5, 3), place(null, 2), place(5, 9)]).toEqual([0, 1, 2, 2, -1]);
  expect(indexOf([], { file: '/tmp/x.py', line: 1, cell: 1 })).toBe(-1);
});
