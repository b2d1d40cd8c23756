import { shortPlace } from './diagnosis';
import { cellWords } from './diagnosisWords';
import { Card, nearer, showCards } from './cards';
import { Column, DataTable, sorted } from './dataTable';
import { Trouble, el } from './dom';
import { floats, History, MOST_COLUMNS, rowsOf } from './gradients';
import { plain, positionOf, valueAt, wrong } from './groupControl';
import { colour, measure, scaleOf, share, tail } from './heat';

const HOSTILE = '<img src=x onerror=alert(1)>';

describe('the slider of a learning rate', () => {
  test('the middle is what is used now, the ends are a hundred times off', () => {
    expect(valueAt(0.003, 0)).toBe(0.003);
    expect(valueAt(0.003, 50)).toBe(0.03);
    expect(valueAt(0.003, -100)).toBe(0.00003);
    expect(valueAt(1e-4, 15)).toBe(0.0002); // three digits: 10 ** 0.3 is 1.995
  });

  test('a value goes to its place, and no further than the end', () => {
    expect(positionOf(0.01, 0.01)).toBe(0);
    expect(positionOf(0.01, 0.1)).toBe(50);
    expect(positionOf(0.01, 1e-9)).toBe(-100);
    expect(positionOf(0, 0.1)).toBe(0);
    expect(positionOf(0.1, 0)).toBe(0);
    for (let at = -100; at <= 100; at += 7) {
      expect(positionOf(3e-4, valueAt(3e-4, at))).toBe(at);
    }
  });

  test.each([
    '',
    '  ',
    'fast',
    '1e',
    '--1',
    '0x10',
    'Infinity',
    'NaN',
    '1e999',
    '1,5',
    '-1e-3',
    '1 2',
    HOSTILE.repeat(50)
  ])('%p is told in one line', text => {
    const words = wrong(text);
    expect(words).not.toBe('');
    expect(words).not.toContain('\n');
    expect(words.length).toBeLessThan(150);
  });

  test.each(['0', '1', '1e-4', '.5', '5.', ' 3E-05 ', '+0.1'])('%p is a learning rate', text => {
    expect(wrong(text)).toBe('');
  });

  test('it is written as it would be typed', () => {
    expect([0.0003, 0.25, 0, 1, 12345, 0.00099988].map(plain)).toEqual([
      '3e-4',
      '0.25',
      '0',
      '1',
      '1.235e4',
      '9.999e-4'
    ]);
  });
});

describe('the heat map', () => {
  test('its scale leaves out what is not finite and not there', () => {
    const columns = [new Float32Array([1, 10, NaN]), new Float32Array([100, -1, Infinity])];
    expect(scaleOf(columns, true)).toEqual({ low: 1, high: 100, log: true });
    expect(scaleOf([new Float32Array([-1, NaN])], true)).toBeNull();
    expect(scaleOf([new Float32Array([0])], true)).toBeNull();
    expect(scaleOf([new Float32Array([0])], false)).toEqual({ low: 0, high: 0, log: false });
  });

  test('a hundred equal values and one outlier: the outlier does not take the colours', () => {
    const values = new Float32Array(1000).fill(1).map((_, i) => 1 + i / 1000);
    values[0] = 1e30;
    expect(scaleOf([values], true)!.high).toBeLessThan(2.1);
  });

  test('a value has its place between low and high', () => {
    const scale = { low: 1, high: 100, log: true };
    expect(share(10, scale)).toBeCloseTo(0.5);
    expect(share(0, scale)).toBe(0);
    expect(share(5, { low: 5, high: 5, log: true })).toBe(0.5);
    expect(colour(0)).toBe('rgb(68, 1, 84)');
    expect(colour(1)).toBe('rgb(253, 231, 37)');
    expect(colour(9)).toBe(colour(1));
  });

  test('a thousand layers and two hundred looks still have room', () => {
    const { label, cell, line } = measure(1000, 240, 800);
    expect(label + cell * 240).toBeLessThanOrEqual(800.1);
    expect(line).toBeGreaterThanOrEqual(4);
  });

  test('the end of a name is kept', () => {
    expect(tail('encoder.layers.11.linear1', 10)).toBe('….linear1'.padStart(10, '…').slice(-10).replace(/^…*/, '…1'));
    expect(tail('short', 10)).toBe('short');
  });
});

describe('the history of gradients', () => {
  const column = (value: number): Float32Array => new Float32Array([value, value]);

  test('keeps so many looks and no more', () => {
    const history = new History();
    for (let i = 0; i < MOST_COLUMNS + 5; i += 1) {
      history.add(i, column(i), column(0), column(0));
    }
    expect(history.steps.length).toBe(MOST_COLUMNS);
    expect(history.steps[0]).toBe(5);
    expect(history.columns.norms[0][0]).toBe(5);
    expect(history.columns.bad.length).toBe(MOST_COLUMNS);
  });

  test('comes whole to a page that is late, from buffers that begin anywhere', () => {
    const bytes = new Uint8Array(3 + 4 * 4);
    new Uint8Array(bytes.buffer).set(new Uint8Array(new Float32Array([1, 2, 3, NaN]).buffer), 3);
    const view = new DataView(bytes.buffer, 3, 16);
    expect([...floats(view)]).toEqual([1, 2, 3, NaN]);
    const history = new History();
    history.replace([7, null], 2, [view, view, view]);
    expect([...history.columns.zeros[1]]).toEqual([3, NaN]);
    expect(history.steps).toEqual([7, null]);
  });

  test('parameters get their figures', () => {
    const view = (...values: number[]): DataView => new DataView(new Float32Array(values).buffer);
    const parameters = [{ name: 'a', shape: [2], dtype: 'float32', layer: 0 }];
    const [row] = rowsOf(parameters, [view(1), view(-1), view(0.5), view(3), view(0)], { a: 'ranks 0-3 (4)' });
    expect(row).toMatchObject({ name: 'a', norm: 1, max: -1, zeros: 0.5, nan: 3, inf: 0, ranks: 'ranks 0-3 (4)' });
  });
});

describe('a table', () => {
  interface Row {
    name: string;
    size: number | null;
  }
  const columns: Column<Row>[] = [
    { name: 'name', title: 'name', value: row => row.name },
    { name: 'size', title: 'size', value: row => row.size, right: true }
  ];
  const names = (table: DataTable<Row>): string[] =>
    [...table.node.querySelectorAll('tbody td:first-child')].map(cell => cell.textContent!);
  const click = (table: DataTable<Row>, title: string): void =>
    [...table.node.querySelectorAll('th button')]
      .filter(one => one.textContent!.startsWith(title))
      .forEach(one => (one as HTMLElement).click());
  const type = (table: DataTable<Row>, words: string): void => {
    const field = table.node.querySelector('input')!;
    field.value = words;
    field.dispatchEvent(new Event('input'));
  };

  test('what is not known comes last both ways, and NaN above all numbers', () => {
    const rows = [{ s: 2 }, { s: null }, { s: NaN }, { s: 10 }, { s: Infinity }];
    expect(sorted(rows, row => row.s, false).map(row => row.s)).toEqual([2, 10, Infinity, NaN, null]);
    expect(sorted(rows, row => row.s, true).map(row => row.s)).toEqual([NaN, Infinity, 10, 2, null]);
  });

  test('names with numbers sort as people count, equal ones stay', () => {
    const rows = ['layers.10', 'layers.9', 'layers.1'].map(name => ({ name }));
    expect(sorted(rows, row => row.name, false).map(row => row.name)).toEqual(['layers.1', 'layers.9', 'layers.10']);
    const equal = [1, 2, 3].map(id => ({ id, key: 'x' }));
    expect(sorted(equal, row => row.key, true).map(row => row.id)).toEqual([1, 2, 3]);
  });

  test('keeps order and filter when its rows are replaced', () => {
    const table = new DataTable<Row>('T', columns, { keep: '' });
    table.update([
      { name: 'a', size: 1 },
      { name: 'b', size: 3 },
      { name: 'ab', size: 2 }
    ]);
    click(table, 'size');
    click(table, 'size');
    expect(names(table)).toEqual(['b', 'ab', 'a']);
    type(table, 'A');
    expect(names(table)).toEqual(['ab', 'a']);
    table.update([
      { name: 'a', size: 9 },
      { name: 'b', size: 3 },
      { name: 'ab', size: 2 }
    ]);
    expect(names(table)).toEqual(['a', 'ab']);
    expect(table.node.querySelector('th[aria-sort=descending]')!.textContent).toBe('size ▼');
    expect(table.node.querySelector('[role=status]')!.textContent).toBe('2 of 3 rows');
  });

  test('keeps them across a reload of the page, in a table of the same name only', () => {
    const first = new DataTable<Row>('T', columns, { keep: 'one' });
    click(first, 'size');
    type(first, 'x y');
    const again = new DataTable<Row>('T', columns, { keep: 'one' });
    again.update([
      { name: 'x', size: 1 },
      { name: 'yx', size: 0 }
    ]);
    expect(names(again)).toEqual(['yx']);
    expect(again.node.querySelector('th[aria-sort=ascending]')!.textContent).toBe('size ▲');
    const other = new DataTable<Row>('T', columns, { keep: 'two' });
    expect(other.node.querySelector('input')!.value).toBe('');
  });

  test('300 ranks are all there; thousands are cut, and it says so', () => {
    const table = new DataTable<Row>('T', columns, { keep: '', counts: n => `${n} ranks` });
    const many = (n: number): Row[] => Array.from({ length: n }, (_, i) => ({ name: `r${i}`, size: i }));
    table.update(many(300));
    expect(names(table).length).toBe(300);
    table.update(many(10_000));
    expect(names(table).length).toBe(400);
    expect(table.node.querySelector('[role=status]')!.textContent).toContain('the first 400 shown');
    type(table, 'r9999');
    expect(names(table)).toEqual(['r9999']);
  });

  test('a hostile name is text', () => {
    const table = new DataTable<Row>('T', columns, { keep: '' });
    table.update([{ name: HOSTILE, size: null }]);
    expect(table.node.querySelector('img')).toBeNull();
    expect(names(table)).toEqual([HOSTILE]);
  });
});

describe('cards', () => {
  const card = (changes: Partial<Card>): Card => ({
    severity: 'critical',
    word: 'CRITICAL',
    code: 'code',
    title: 'title',
    who: [],
    where: null,
    source: null,
    evidence: [],
    cause: '',
    next_steps: [],
    confidence: 'high',
    reference: null,
    ...changes
  });

  test('say how bad it is in a word and a sign, and are text', () => {
    const shown = showCards([card({ title: HOSTILE, evidence: [HOSTILE], who: [HOSTILE], where: HOSTILE })], {});
    expect(shown.querySelector('.tdb-severity')!.textContent).toBe('✖ CRITICAL');
    expect(shown.querySelector('img')).toBeNull();
    expect(shown.textContent!.split(HOSTILE).length).toBe(5);
  });

  test('have buttons for what can be done here, each once', () => {
    const done: string[] = [];
    const steps = ['stacks', 'stacks', 'checkpoint', 'rm', null].map(does => ({ text: 'x', does }));
    const acts = { stacks: () => done.push('stacks'), rm: () => done.push('rm') };
    const shown = showCards([card({ next_steps: steps })], acts);
    const buttons = [...shown.querySelectorAll('button')];
    expect(buttons.map(one => one.textContent)).toEqual(['Show the stacks']);
    buttons[0].click();
    expect(done).toEqual(['stacks']);
  });

  test('a place is told by the end of its path', () => {
    expect(nearer('/home/ada/my runs/src/train.py:3 Net.forward')).toBe('…/src/train.py:3 Net.forward');
    expect(nearer('/train.py:3 f')).toBe('/train.py:3 f');
    expect(nearer('<stdin>:1 <module>')).toBe('<stdin>:1 <module>');
    expect(nearer('In [4], line 11 step')).toBe('In [4], line 11 step');
  });

  test('show the blamed line between its neighbours', () => {
    const source = { line: 10, first: 9, lines: ['with lock:', `    ${HOSTILE}`] };
    const shown = showCards([card({ where: 'train.py:10 f', source })], {}).querySelector('pre')!;
    expect(shown.textContent).toBe(`   9 │ with lock:\n> 10 │     ${HOSTILE}\n`);
    expect(shown.querySelector('strong')!.textContent).toContain('> 10');
    expect(shown.querySelector('img')).toBeNull();
    expect(showCards([card({})], {}).querySelector('pre')).toBeNull();
  });

  test('are short where there is much', () => {
    const many = Array.from({ length: 300 }, (_, i) => `rank ${i}`);
    const shown = showCards([card({ who: many, evidence: many })], {});
    expect(shown.querySelector('dd')!.textContent).toBe(`${many.slice(0, 8).join(', ')} and 292 more`);
    expect(shown.querySelector('details')!.open).toBe(false);
    expect(shown.querySelector('summary')!.textContent).toBe('296 more');
  });
});

describe('small things', () => {
  test('a cell of the matrix', () => {
    expect(cellWords(null)).toBe('–');
    expect(cellWords({ issued: 57, completed: 56, behind: 0, waits: true })).toBe('57 / 56, waits');
    expect(cellWords({ issued: 56, completed: null, behind: 1, waits: false })).toBe('56 / ? ▼1');
  });

  test('a place without its directories', () => {
    expect(shortPlace('/home/ada/my code/train.py:3 f')).toBe('my code/train.py:3 f');
    expect(shortPlace('/home/ada/train.py:42 <module>')).toBe('train.py:42 <module>');
    expect(shortPlace('In [4], line 11 step')).toBe('In [4], line 11 step');
    expect(shortPlace('')).toBe('–');
  });

  test('trouble is one line of text with the next step', () => {
    const trouble = new Trouble();
    trouble.show(HOSTILE, 'attach again', 'reading');
    expect(trouble.node.textContent).toBe(`✖reading: ${HOSTILE}; attach again`);
    expect(trouble.node.getAttribute('role')).toBe('alert');
    expect(trouble.node.querySelector('img')).toBeNull();
    trouble.clear();
    expect(trouble.node.hidden).toBe(true);
  });

  test('an element takes text, never markup', () => {
    expect(el('div', { text: HOSTILE }, HOSTILE).children.length).toBe(0);
  });
});
