// What is said in Chinese, and by whom.

import { inWords } from './common/sparkline';
import { speak, text } from './common/language';
import { indexOf } from './links/cells';
import { Desk, Opener } from './links/open';
import { Job, overall, sign, summary } from './panel/jobs';
import { planInWords } from './panel/plan';
import { takeOver } from './tables';
import { showCards } from './widgets/cards';
import { mountWatch, WidgetModel } from './widgets/container';
import { DataTable } from './widgets/dataTable';
import { cellWords } from './widgets/diagnosisWords';
import { parseRanks } from './widgets/range';
import { View } from './widgets/view';
import { formatX, stepWords } from './widgets/words';

const JOB: Job = {
  name: 'torchrun:7',
  kind: 'launcher',
  pid: 7,
  command: 'torchrun train.py',
  user: 'me',
  framework: 'torch',
  processes: 9,
  ranks: 8,
  running_s: 75,
  agent: false,
  why_not: null,
  followed: false,
  gone: false,
  step: null,
  own_step: null,
  at: '',
  loss: [],
  rss_bytes: null,
  cuda_bytes: null,
  state: null
};
const STALLED: Job = { ...JOB, state: { code: 'stalled', words: '停滞', since_s: 9 } };
const CARD = {
  severity: 'critical',
  word: '严重',
  code: 'left_out',
  title: 'rank 3 漏掉了一次集合通信',
  who: [...Array(10).keys()].map(n => `rank ${n}`),
  where: null,
  source: null,
  evidence: [],
  cause: '',
  next_steps: [{ text: '查看堆栈', does: 'stacks' }],
  confidence: 'high',
  reference: null
};

function model(language?: string): WidgetModel {
  const values: Record<string, unknown> = {
    about: { id: 'w', language, job: 'j', views: ['one'], view: 'one', rate_hz: 2, paused: false, stopped: false },
    state: { code: 'training', words: '训练中', step: 1, at: '' }
  };
  return { get: name => values[name], on: () => undefined, off: () => undefined, send: () => undefined };
}

const ONE: View = {
  name: 'one',
  get label() {
    return text('Curves');
  },
  mount: () => ({ show() {}, hide() {}, dispose() {} })
};

beforeEach(() => speak('zh'));
afterEach(() => speak('en'));

test('a job', () => {
  expect([sign(JOB).word, sign(STALLED).word, sign({ ...JOB, gone: true }).word]).toEqual(['未附加', '停滞', '已结束']);
  expect(summary(JOB)).toBe('8 个 rank · torch · 已运行 1 min 15 s');
  expect([overall([]), overall([JOB, JOB]), overall([STALLED])].map(one => one.text)).toEqual([
    '没有训练任务',
    '2 个训练任务',
    '1 个训练任务停滞'
  ]);
  expect(inWords([2, 1], String)).toBe('从 2 到 1，最低 1，最高 2');
});

test('a plan says what is there, which the server says in English', () => {
  const plan = { directory: '/d', kind: 'sharded', bytes: 1024, free_bytes: null, pause_s: null, note: '' };
  expect(planInWords({ ...plan, there: 'empty directory', still: [0, 3], missing: [] })).toEqual([
    ['大小', '1.0 KiB（分片）'],
    ['该处可用空间', '–'],
    ['训练停顿', '在内存中复制一次状态的时间'],
    ['现有内容', '空目录'],
    ['没有训练步', 'rank 0、3：按现状保存']
  ]);
});

test('a card, a table and a cell of a matrix', () => {
  const card = showCards([CARD], { stacks: () => undefined });
  expect([...card.querySelectorAll('dt, dd')].map(node => node.textContent)).toEqual([
    ...['涉及', 'rank 0、rank 1、rank 2、rank 3、rank 4、rank 5、rank 6、rank 7 等，另有 2 个'],
    ...['下一步', '查看堆栈', '置信度', '高']
  ]);
  expect(card.querySelector('button')!.textContent).toBe('显示堆栈');
  const table = new DataTable<number>('参数', [{ name: 'n', title: 'n', value: n => n }]);
  table.update([1, 2]);
  expect(table.node.querySelector('[role=status]')!.textContent).toBe('2 行');
  expect(cellWords({ issued: 3, completed: 2, behind: 4, waits: true })).toBe('3 / 2，等待 ▼4');
});

test('steps, times and what is wrong with a choice of ranks', () => {
  expect([stepWords(1234, null), formatX('step', 5, 10)]).toEqual(['第 1,234 步', '第 15 步']);
  expect(formatX('time', new Date(2026, 0, 5, 15, 4, 5).getTime() / 1000, null)).toBe('15:04:05');
  expect(parseRanks('x', [0, 1], 8)).toBe('“x”不是 rank：请写成例如 0-3, 7');
});

test('a widget speaks as its kernel does; one of an earlier version is English', () => {
  const labels = (language?: string): string[] => {
    const el = document.createElement('div');
    mountWatch(model(language), el, [ONE]);
    const said = [...el.querySelectorAll('.tdb-job, button')].map(node => node.textContent!);
    return [el.querySelector<HTMLElement>('.tdb-watch')!.lang, ...said];
  };
  expect(labels('en')).toEqual(['en', 'job j', 'Pause', 'Curves']);
  expect(labels('zh')).toEqual(['zh', '任务 j', '暂停', '曲线']);
  expect(labels()).toEqual(['en', 'job j', 'Pause', 'Curves']);
});

test.each([
  ['zh', ' lang="zh"', '筛选'],
  ['zh', ' lang="en"', 'filter'],
  ['en', ' lang="zh"', '筛选'],
  ['zh', '', '筛选'],
  ['en', '', 'filter']
])('on a page in %p, a table of a result with%s is in the language of the result', (page, lang, placeholder) => {
  speak(page);
  takeOver(document);
  const rows = '<tr><td>x</td></tr>'.repeat(9);
  document.body.innerHTML = `<div class="traindbg-view"${lang}><table class="traindbg-sorts"><caption>T</caption><tbody>${rows}</tbody></table></div>`;
  const table = document.querySelector('table')!;
  table.dispatchEvent(
    Object.assign(new Event('animationstart', { bubbles: true }), { animationName: 'traindbg-appeared' })
  );
  const input = table.querySelector('input')!;
  expect(input.placeholder).toBe(placeholder);
  input.value = 'x';
  input.dispatchEvent(new Event('input', { bubbles: true }));
  expect(table.querySelector('[role=status]')!.textContent).toBe(placeholder === 'filter' ? '9 of 9 rows' : '9 / 9 行');
});

test('a cell that is not there any more', async () => {
  const warned: string[][] = [];
  const context = { path: 'a/b.ipynb', ready: Promise.resolve() };
  const desk = {
    place: async () => ({ opens: 'notebook', path: 'a/b.ipynb' }),
    document: async () => ({ context, content: { model: { cells: [] } } }),
    warn: (...words: string[]) => warned.push(words)
  } as unknown as Desk;
  expect(indexOf([], { file: 'f', line: 1, cell: 4 })).toBe(-1);
  await new Opener(desk).open({ file: 'f', line: 1, cell: 4 });
  expect(warned).toEqual([['In [4] 已不在 b.ipynb 中', '它已被修改或删除：请重新运行它，再重新查看']]);
});
