// How tables were arranged, by the cell that they are in: a view that is drawn anew there is arranged as its predecessor was.

import { captionOf, headsOf, Sort, SORTS } from './markup';

export interface Arrangement {
  sort: Sort | null;
  filter: string;
  /** Whether only the rows that stand out are shown. */
  only: boolean;
  /** Whether all that it is folded into is open. */
  open: boolean;
  /** Whether the filter has the focus. */
  typing: boolean;
}

const memory = new WeakMap<Element, Map<string, Arrangement>>();

export function remember(table: HTMLTableElement, arrangement: Arrangement): void {
  const place = placeOf(table);
  if (place) {
    const kept = memory.get(place) ?? new Map<string, Arrangement>();
    memory.set(place, kept.set(keyIn(place, table), arrangement));
  }
}

export function recall(table: HTMLTableElement): Arrangement | undefined {
  const place = placeOf(table);
  return place ? memory.get(place)?.get(keyIn(place, table)) : undefined;
}

/** What stays when a view is drawn anew. The output area of a widget does not, the cell round it does. */
function placeOf(table: HTMLTableElement): Element | null {
  return table.closest('.jp-Cell') ?? table.closest('.jp-LinkedOutputView') ?? table.closest('.jp-OutputArea');
}

/** The table's words, and which it is among those with the same ones. */
function keyIn(place: Element, table: HTMLTableElement): string {
  const words = wordsOf(table);
  const same = [...place.querySelectorAll<HTMLTableElement>(SORTS)].filter(other => wordsOf(other) === words);
  return `${words}\n${same.indexOf(table)}`;
}

/** Caption and headings; numbers are left out, since they change from one look to the next. */
function wordsOf(table: HTMLTableElement): string {
  return [captionOf(table), ...headsOf(table).map(head => head.textContent)].join('\n').replace(/\d+/g, '');
}
