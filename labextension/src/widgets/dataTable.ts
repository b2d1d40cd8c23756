// A table whose sorting and filter stay as they are when its rows are replaced, and when the page is loaded again.

import { counted, text } from '../common/language';
import { button, el, freshId, linked, say } from './dom';
import * as kept from './kept';

export type Value = number | string | null;

export interface Column<Row> {
  name: string;
  title: string;
  /** What it is sorted by; null comes last, in both directions. */
  value: (row: Row) => Value;
  /** What is shown; `value` where there is none. */
  show?: (row: Row) => string;
  /** The attributes of the link that it is. */
  link?: (row: Row) => Record<string, string> | null | undefined;
  right?: boolean;
  wrap?: boolean;
  class?: (row: Row) => string;
}

interface Kept {
  by: string;
  down: boolean;
  filter: string;
}

const MOST_ROWS = 400;

export class DataTable<Row> {
  readonly node: HTMLElement;
  private rows: Row[] = [];
  private by: string;
  private down: boolean;
  private filter: HTMLInputElement;
  private body = el('tbody');
  private heads: Record<string, HTMLTableCellElement> = {};
  private told = el('span', { class: 'tdb-muted', attrs: { role: 'status' } });

  constructor(
    caption: string,
    private columns: Column<Row>[],
    private options: {
      keep: string;
      sort?: string;
      down?: boolean;
      counts?: (n: number) => string;
      height?: string;
    } = { keep: '' }
  ) {
    const before = options.keep ? (kept.get('tables', options.keep) as Kept | undefined) : undefined;
    const known = before && columns.some(column => column.name === before.by);
    this.by = known ? before.by : (options.sort ?? columns[0].name);
    this.down = known ? before.down : (options.down ?? false);
    const id = freshId('tdb-filter');
    this.filter = el('input', {
      class: 'tdb-input tdb-filter',
      attrs: { type: 'search', id, placeholder: text('filter'), autocomplete: 'off', spellcheck: 'false' }
    });
    this.filter.value = known ? before.filter : '';
    this.filter.addEventListener('input', () => this.changed());
    this.filter.addEventListener('keydown', event => event.stopPropagation());
    const head = el('tr', {}, ...columns.map(column => this.head(column)));
    const table = el(
      'table',
      { class: 'tdb-table' },
      el('caption', { class: 'tdb-unseen', text: caption }),
      el('thead', {}, head),
      this.body
    );
    const scroll = el(
      'div',
      {
        class: 'tdb-scroll',
        attrs: {
          tabindex: '0',
          role: 'region',
          'aria-label': text('{table}, scrolls', { table: caption }),
          style: `max-height: ${options.height ?? '320px'}`
        }
      },
      table
    );
    this.node = el(
      'div',
      { class: 'tdb-data' },
      el(
        'div',
        { class: 'tdb-row tdb-data-head' },
        el('strong', { text: caption }),
        el('label', { class: 'tdb-unseen', text: text('Filter {table}', { table: caption }), attrs: { for: id } }),
        this.filter,
        this.told
      ),
      scroll
    );
    this.draw();
  }

  /** Replace the rows; sorting, filter, scrolling and focus stay. */
  update(rows: Row[]): void {
    this.rows = rows;
    this.draw();
  }

  /** What is shown now, in this order. */
  shown(): Row[] {
    const words = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const column = this.columns.find(one => one.name === this.by) ?? this.columns[0];
    const there = this.rows.filter(row => {
      const line = this.columns
        .map(one => cell(one, row))
        .join('\t')
        .toLowerCase();
      return words.every(word => line.includes(word));
    });
    return sorted(there, column.value, this.down);
  }

  private head(column: Column<Row>): HTMLTableCellElement {
    const sign = el('span', { class: 'tdb-sort', attrs: { 'aria-hidden': 'true' } });
    const sort = button('', () => this.sort(column.name), { class: 'tdb-plain' });
    sort.append(column.title, sign);
    const head = el('th', { class: column.right ? 'tdb-right' : '', attrs: { scope: 'col' } }, sort);
    this.heads[column.name] = head;
    return head;
  }

  private sort(name: string): void {
    this.down = this.by === name ? !this.down : false;
    this.by = name;
    this.changed();
  }

  private changed(): void {
    if (this.options.keep) {
      kept.put('tables', this.options.keep, { by: this.by, down: this.down, filter: this.filter.value });
    }
    this.draw();
  }

  private draw(): void {
    for (const column of this.columns) {
      const here = column.name === this.by;
      const head = this.heads[column.name];
      head.setAttribute('aria-sort', here ? (this.down ? 'descending' : 'ascending') : 'none');
      head.querySelector('.tdb-sort')!.textContent = here ? (this.down ? ' ▼' : ' ▲') : '';
    }
    const shown = this.shown();
    const cut = shown.slice(0, MOST_ROWS);
    this.body.replaceChildren(...cut.map(row => this.line(row)));
    const all = (this.options.counts ?? rows)(this.rows.length);
    const words = shown.length === this.rows.length ? all : text('{shown} of {all}', { shown: shown.length, all });
    say(this.told, shown.length > cut.length ? text('{words}, the first {n} shown', { words, n: cut.length }) : words);
  }

  private line(row: Row): HTMLTableRowElement {
    return el(
      'tr',
      {},
      ...this.columns.map(column => {
        const names = [column.right && 'tdb-right', column.wrap && 'tdb-wrap', column.class?.(row)];
        return el('td', { class: names.filter(Boolean).join(' ') }, linked(column.link?.(row), cell(column, row)));
      })
    );
  }
}

function rows(n: number): string {
  return counted('{n:,} row', '{n:,} rows', n);
}

function cell<Row>(column: Column<Row>, row: Row): string {
  if (column.show) {
    return column.show(row);
  }
  const value = column.value(row);
  return value === null ? '–' : String(value);
}

/** In order of `value`; equal rows keep theirs, null comes last, NaN counts as more than any number (it is what one looks for). */
export function sorted<Row>(rows: Row[], value: (row: Row) => Value, down: boolean): Row[] {
  return rows
    .map((row, index) => ({ row, index, key: value(row) }))
    .sort((a, b) => {
      if (a.key === null || b.key === null) {
        return a.key === b.key ? a.index - b.index : a.key === null ? 1 : -1;
      }
      const order = compare(a.key, b.key);
      return order === 0 ? a.index - b.index : down ? -order : order;
    })
    .map(one => one.row);
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === 'number' && typeof b === 'number') {
    const [left, right] = [Number.isNaN(a) ? Infinity : a, Number.isNaN(b) ? Infinity : b];
    return left === right ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : left < right ? -1 : 1;
  }
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}
