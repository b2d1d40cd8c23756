import { cell, inTrouble, Job, memory, news, overall, sign, State, summary, title } from './jobs';

function job(more: Partial<Job> = {}): Job {
  return {
    name: '4711',
    kind: 'process',
    pid: 4711,
    command: '/usr/bin/python -u /home/me/train.py --lr 1',
    user: 'me',
    framework: 'torch',
    processes: 1,
    ranks: 1,
    running_s: 75,
    agent: true,
    why_not: null,
    followed: false,
    gone: false,
    step: 3,
    own_step: null,
    at: 'step 3 since the attach',
    loss: [1],
    rss_bytes: 1024 ** 3,
    cuda_bytes: null,
    state: null,
    ...more
  };
}

function state(code: State['code'], words: string = code): { state: State } {
  return { state: { code, words, since_s: 0 } };
}

test('a job is called by its script', () => {
  expect(title(job())).toBe('train.py');
  expect(title(job({ command: 'python -m my.trainer --x' }))).toBe('my.trainer');
  expect(title(job({ command: '' }))).toBe('4711');
  expect(title(job({ kind: 'kernel', name: 'kernel:0a1b2c3d-4e5f' }))).toBe('Notebook kernel 0a1b2c3d');
  expect(title(job({ kind: 'ray', name: 'ray:@10.0.0.1:6379', command: 'a Ray cluster' }))).toBe(
    'Ray cluster 10.0.0.1:6379'
  );
  expect(title(job({ kind: 'ray', name: 'ray:02000000@10.0.0.1:6379' }))).toBe('Ray job 02000000');
});

test('a line says what it is', () => {
  expect(summary(job())).toBe('pid 4711 · torch · up 1 min 15 s');
  expect(summary(job({ kind: 'launcher', ranks: 8, framework: null }))).toBe('8 ranks · up 1 min 15 s');
  expect(summary(job({ kind: 'ray', processes: 5, framework: null }))).toBe('5 processes · up 1 min 15 s');
  expect(summary(job({ gone: true }))).toBe('has ended');
  expect([memory(job()), memory(job({ cuda_bytes: 2048 }))]).toEqual(['1.0 GiB', '1.0 GiB + 2.0 KiB on GPU']);
});

test('every trouble has a sign of its own shape', () => {
  const shown = (['training', 'slow', 'stalled', 'hung', 'diverged'] as const).map(c => sign(job(state(c))).glyph);
  expect(new Set(shown).size).toBe(5);
  expect([inTrouble(job(state('stalled'))), inTrouble(job(state('slow'))), inTrouble(job())]).toEqual([
    true,
    false,
    false
  ]);
  expect(sign(job({ agent: false })).word).toBe('not attached');
  expect(sign(job({ gone: true })).word).toBe('ended');
});

test('the status bar tells of trouble first', () => {
  expect(overall([])).toEqual({ text: 'no training job', glyph: '○', trouble: false });
  expect(overall([job(), job({ gone: true })]).text).toBe('1 training job');
  expect(overall([job(), job(state('stalled'))])).toEqual({
    text: '1 training job stalled',
    glyph: '▲',
    trouble: true
  });
  expect(overall([job(state('hung')), job(state('stalled'))]).text).toBe('2 training jobs in trouble');
});

test('news are what changed', () => {
  const told = (before: Job[], now: Job[]): [string, boolean][] => news(before, now).map(n => [n.text, n.bad]);
  expect(told([job()], [job()])).toEqual([]);
  expect(told([], [job()])).toEqual([['train.py has appeared', false]]);
  expect(told([job()], [])).toEqual([['train.py has ended', false]]);
  expect(told([job({ followed: true })], [job({ followed: true, gone: true })])).toEqual([
    ['train.py has ended', false]
  ]);
  const stalled = job(state('stalled', 'stalled: no step for 12 s'));
  expect(told([job(state('training'))], [stalled])).toEqual([['train.py: stalled: no step for 12 s', true]]);
  expect(told([stalled], [stalled])).toEqual([]);
  expect(told([stalled], [job(state('training'))])).toEqual([['train.py is training again', false]]);
});

test('an ordinary target goes to the magic', () => {
  expect(cell('4711', false)).toBe('%load_ext traindbg\n%attach 4711');
  expect(cell('torchrun:12', true)).toBe('%load_ext traindbg\n%watch torchrun:12');
});

test('a hostile target cannot become code', () => {
  const evil = 'kernel:/tmp/a"\n!rm -rf ~\n\'"""\\ü.json';
  const code = cell(evil, false).split('\n');
  expect(code).toHaveLength(3);
  expect(code[1]).toBe('job = traindbg.attach("kernel:/tmp/a\\"\\n!rm -rf ~\\n\'\\"\\"\\"\\\\\\u00fc.json")');
});
