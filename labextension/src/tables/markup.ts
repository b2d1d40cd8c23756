// How the HTML of a result says in which ways its table can be sorted: jupyter_traindbg/render/templates/blocks.html.jinja writes it.

/** What a person chose; columns count from 0. */
export interface Sort {
  column: number;
  down: boolean;
}

export const SORTS = 'table.traindbg-sorts';

/** The rows, as the document has them now. */
export function rowsOf(table: HTMLTableElement): HTMLTableRowElement[] {
  return [...(table.tBodies[0]?.rows ?? [])];
}

export function headsOf(table: HTMLTableElement): HTMLTableCellElement[] {
  return [...(table.tHead?.rows[0]?.cells ?? [])];
}

/** The words of the caption, without what stands there to be operated. */
export function captionOf(table: HTMLTableElement): string {
  const parts = [...(table.caption?.childNodes ?? [])].filter(part => !(part as Element).matches?.('.traindbg-filter'));
  return parts
    .map(part => part.textContent)
    .join('')
    .trim();
}

/** The place of `row` when its table is sorted by `column`, smallest first; null where its cell says nothing. */
export function placeOf(row: HTMLTableRowElement, column: number): number | null {
  const place = parseInt(row.style.getPropertyValue(`--by-${column + 1}`), 10);
  return Number.isNaN(place) ? null : place;
}

/** How the table is sorted; null: in the order given. */
export function sortOf(table: HTMLTableElement): Sort | null {
  const chosen = table.tHead?.querySelector('input:checked');
  const head = chosen?.closest('th');
  return chosen && head ? { column: head.cellIndex, down: chosen.classList.contains('traindbg-down') } : null;
}

/** The radio input that stands for `sort`; null where the table has none. */
export function radioFor(table: HTMLTableElement, sort: Sort | null): HTMLInputElement | null {
  const where = sort
    ? `thead th:nth-child(${sort.column + 1}) .traindbg-${sort.down ? 'down' : 'up'}`
    : 'caption .traindbg-given';
  return table.querySelector(where);
}

/** The checkbox that leaves only the rows that stand out. */
export function onlyOf(table: HTMLTableElement): HTMLInputElement | null {
  return table.querySelector('caption .traindbg-only');
}

export function standsOut(row: HTMLTableRowElement): boolean {
  return row.classList.contains('traindbg-marked');
}
