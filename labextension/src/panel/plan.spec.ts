import { planInWords, progress } from './plan';

const PLAN = {
  directory: '/data/saved',
  kind: 'replicated',
  bytes: 3 * 1024 ** 3,
  free_bytes: 1024 ** 4,
  pause_s: 0.02,
  there: 'nothing',
  still: [],
  missing: [],
  note: ''
};

test('a plan is told before it is done', () => {
  expect(planInWords(PLAN)).toEqual([
    ['Size', '3.0 GiB (replicated)'],
    ['Free space there', '1.0 TiB'],
    ['The training stands still for', 'about 20 ms']
  ]);
});

test('what speaks against it is told, too', () => {
  const words = planInWords({ ...PLAN, there: 'checkpoint', still: [0, 3], missing: [2], note: 'odd', pause_s: null });
  expect(words.slice(2)).toEqual([
    ['The training stands still for', 'one copy of its state in memory'],
    ['There now', 'checkpoint'],
    ['Makes no steps', 'rank 0, 3: saved as it stands'],
    ['Not in it', 'rank 2'],
    ['Note', 'odd']
  ]);
});

test('progress is in bytes and in percent', () => {
  const task = { state: 'running', done_bytes: 0, total_bytes: 0, result: null, error: null } as const;
  expect(progress(task)).toBe('copying the state');
  expect(progress({ ...task, done_bytes: 512, total_bytes: 2048 })).toBe('512 B of 2.0 KiB, 25 %');
});
