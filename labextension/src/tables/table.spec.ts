import { takeOver } from '.';

/** A table as a result has it: parameters with a norm each, of which the second says nothing; every fourth stands out. */
function html(caption: string, count: number): string {
  const rows = [...Array(count).keys()].map(
    i => `<tr style="--by-1: ${i};${i === 1 ? '' : ` --by-2: ${(i * 7) % count}`}"${i % 4 ? '' : ' class="traindbg-marked"'}>
      <th scope="row">layer.${i}.${i % 2 ? 'bias' : 'weight'}</th><td>${i === 1 ? '–' : (i * 7) % count}</td></tr>`
  );
  const head = (name: string, first: string, second: string): string =>
    `<th scope="col"><label>${name}<input hidden type="radio" name="by-1f3a9c" class="traindbg-${first}"></label>` +
    `<input hidden type="radio" name="by-1f3a9c" class="traindbg-${second}" aria-label="${name}, reversed"></th>`;
  return `<div class="traindbg-view"><div class="traindbg-scroll">
    <table style="--traindbg-columns: 2" data-lm-suppress-shortcuts="true" class="traindbg-table traindbg-sorts">
      <caption>${caption}<input hidden type="radio" name="by-1f3a9c" class="traindbg-given" checked aria-label="in the order given"
        ><input hidden type="checkbox" class="traindbg-only" aria-label="only those that stand out"></caption>
      <thead><tr>${head('parameter', 'up', 'down')}${head('norm', 'down', 'up')}</tr></thead>
      <tbody>${rows.join('')}</tbody></table></div></div>`;
}

class Shown {
  readonly table: HTMLTableElement;

  constructor(readonly output: HTMLElement) {
    this.table = output.querySelector('table')!;
    appear(this.table);
  }

  choose(selector: string): void {
    this.table.querySelector<HTMLElement>(selector)!.click();
  }

  type(text: string): void {
    this.filter!.value = text;
    this.filter!.dispatchEvent(new Event('input', { bubbles: true }));
  }

  get filter(): HTMLInputElement | null {
    return this.table.querySelector('[type=search]');
  }

  get told(): string | null {
    return this.table.querySelector('[role=status]')!.textContent;
  }

  /** The numbers of the rows that are not hidden. */
  get rows(): number[] {
    return [...this.table.tBodies[0].rows]
      .filter(row => !row.hidden)
      .map(row => Number(row.cells[0].textContent!.split('.')[1]));
  }

  get sorts(): (string | null)[] {
    return [...this.table.tHead!.rows[0].cells].map(head => head.getAttribute('aria-sort'));
  }
}

function appear(table: Element, animationName = 'traindbg-appeared'): void {
  table.dispatchEvent(Object.assign(new Event('animationstart', { bubbles: true }), { animationName }));
}

/** A new output in `cell`, in place of what is there. */
function show(cell: HTMLElement, caption = '9 parameters', count = 9): Shown {
  const output = document.createElement('div');
  output.className = 'jp-OutputArea';
  output.innerHTML = html(caption, count);
  cell.replaceChildren(output);
  return new Shown(output);
}

function newCell(): HTMLElement {
  const cell = document.createElement('div');
  cell.className = 'jp-Cell';
  document.body.append(cell);
  return cell;
}

const GIVEN = [0, 1, 2, 3, 4, 5, 6, 7, 8];

beforeAll(() => takeOver(document));
beforeEach(() => document.body.replaceChildren());

test('rows are sorted in the document, the heading says which way, and the order given comes back', () => {
  const shown = show(newCell());
  expect(shown.table.classList).toContain('traindbg-ordered');
  shown.choose('th:nth-child(2) .traindbg-down');
  expect(shown.rows).toEqual([5, 6, 2, 7, 3, 8, 4, 0, 1]);
  expect(shown.sorts).toEqual([null, 'descending']);
  shown.choose('th:nth-child(2) .traindbg-up');
  expect(shown.rows[0]).toBe(0);
  expect(shown.rows[8]).toBe(1);
  expect(shown.sorts).toEqual([null, 'ascending']);
  shown.choose('th:nth-child(1) .traindbg-down');
  expect(shown.rows).toEqual([...GIVEN].reverse());
  expect(shown.sorts).toEqual(['descending', null]);
  shown.choose('.traindbg-given');
  expect(shown.rows).toEqual(GIVEN);
  expect(shown.sorts).toEqual([null, null]);
});

test('a filter leaves the rows with all its words, says how many, and Escape empties it', () => {
  const shown = show(newCell());
  expect(shown.filter!.getAttribute('aria-label')).toBe('filter the rows of 9 parameters');
  expect(shown.told).toBe('');
  shown.type('LAYER weight');
  expect(shown.rows).toEqual([0, 2, 4, 6, 8]);
  expect(shown.told).toBe('5 of 9 rows');
  shown.choose('th:nth-child(1) .traindbg-down');
  expect(shown.rows).toEqual([8, 6, 4, 2, 0]);
  shown.choose('.traindbg-only');
  expect(shown.told).toBe('3 of 3 rows');
  shown.filter!.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', isComposing: true }));
  expect(shown.filter!.value).toBe('LAYER weight');
  shown.filter!.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
  expect(shown.rows).toEqual([...GIVEN].reverse());
  expect(shown.told).toBe('');
});

test('a table is taken over once, when it appears; a short one has no filter', () => {
  const shown = show(newCell());
  appear(shown.table);
  appear(shown.table, 'of somebody else');
  expect(shown.table.querySelectorAll('[type=search]').length).toBe(1);
  expect(show(newCell(), 'parameters', 7).filter).toBeNull();
});

test('two views of one output are sorted each by itself', () => {
  const [one, other] = [show(newCell()), show(newCell())];
  one.choose('th:nth-child(1) .traindbg-down');
  expect(other.table.querySelector<HTMLInputElement>('.traindbg-given')!.checked).toBe(true);
  other.choose('th:nth-child(2) .traindbg-up');
  expect(one.table.querySelector<HTMLInputElement>('th:nth-child(1) .traindbg-down')!.checked).toBe(true);
});

test('what is drawn anew in a cell is arranged as before, whatever its numbers are now', () => {
  const cell = newCell();
  const shown = show(cell);
  shown.choose('th:nth-child(1) .traindbg-down');
  shown.choose('.traindbg-only');
  shown.type('weight');
  const anew = show(cell, '12 parameters', 12);
  expect(anew.rows).toEqual([10, 8, 6, 4, 2, 0]);
  expect(anew.sorts).toEqual(['descending', null]);
  expect(anew.filter!.value).toBe('weight');
  expect(anew.told).toBe('3 of 3 rows');
  expect(show(cell, 'buffers').rows).toEqual(GIVEN);
  expect(show(newCell()).rows).toEqual(GIVEN);
});

test('the order given is remembered, too', () => {
  const cell = newCell();
  show(cell).choose('th:nth-child(1) .traindbg-down');
  new Shown(cell.firstElementChild as HTMLElement).choose('.traindbg-given');
  expect(show(cell).rows).toEqual(GIVEN);
});

test('tables with the same words in a cell are told apart by their order', () => {
  const cell = newCell();
  const draw = (): Shown[] => {
    cell.innerHTML = html('9 parameters', 9) + html('9 parameters', 9);
    return [...cell.children].map(view => new Shown(view as HTMLElement));
  };
  draw()[1].choose('th:nth-child(1) .traindbg-down');
  expect(draw().map(shown => shown.rows[0])).toEqual([0, 8]);
});

test('who types goes on in what is drawn anew, and nobody is called back', async () => {
  const cell = newCell();
  let shown = show(cell);
  shown.filter!.focus();
  shown.type('wei');
  shown = show(cell);
  expect(document.activeElement).toBe(shown.filter);
  expect(shown.filter!.selectionStart).toBe(3);
  shown.filter!.blur();
  await Promise.resolve();
  shown = show(cell);
  expect(document.activeElement).toBe(document.body);
});

test('what a person unfolded is unfolded again, and what was closed stays closed', () => {
  const cell = newCell();
  const draw = (): HTMLDetailsElement => {
    cell.innerHTML = `<details><summary>more</summary>${html('9 parameters', 9)}</details>`;
    appear(cell.firstElementChild!);
    return cell.firstElementChild as HTMLDetailsElement;
  };
  const fold = draw();
  expect(fold.open).toBe(false);
  fold.open = true;
  new Shown(fold);
  const again = draw();
  expect(again.open).toBe(true);
  new Shown(again);
  again.open = false;
  again.dispatchEvent(new Event('toggle'));
  expect(draw().open).toBe(false);
});
