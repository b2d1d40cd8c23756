// One table: its rows in the order that is chosen, in the document too, and a filter in its caption.

import { language, speaking, text } from '../common/language';
import { captionOf, headsOf, onlyOf, placeOf, radioFor, rowsOf, Sort, sortOf, standsOut } from './markup';
import { recall, remember } from './memory';
import { ordered, passes } from './order';

const FEWEST_TO_FILTER = 8;
let adopted = 0;

export class Table {
  private readonly given: HTMLTableRowElement[];
  private readonly filter: HTMLInputElement | null = null;
  private typing = false;
  private readonly told = document.createElement('span');
  private readonly language: string;

  /** Takes over from the style sheet. */
  constructor(private readonly node: HTMLTableElement) {
    this.given = rowsOf(node);
    this.language = languageOf(node);
    adopted += 1;
    for (const radio of node.querySelectorAll<HTMLInputElement>('input[type=radio]')) {
      radio.name = `traindbg-table-${adopted}`; // a second view of the same output would share its group
    }
    if (node.caption && this.given.length >= FEWEST_TO_FILTER) {
      this.filter = this.addFilter(node.caption, captionOf(node));
    }
    this.restore();
    this.changed();
    node.classList.add('traindbg-ordered');
    node.addEventListener('change', () => this.changed());
    for (let fold = node.closest('details'); fold; fold = fold.parentElement?.closest('details') ?? null) {
      fold.addEventListener('toggle', () => this.remember());
    }
  }

  private addFilter(caption: HTMLTableCaptionElement, words: string): HTMLInputElement {
    this.node.setAttribute('aria-label', words); // what is typed into a caption is no part of its table's name
    this.told.setAttribute('role', 'status');
    const input = document.createElement('input');
    input.type = 'search';
    input.placeholder = this.say(() => text('filter'));
    input.setAttribute(
      'aria-label',
      this.say(() => text('filter the rows of {table}', { table: words }))
    );
    input.autocomplete = 'off';
    input.spellcheck = false;
    input.dataset.lmSuppressShortcuts = 'true';
    input.addEventListener('input', () => this.changed());
    input.addEventListener('keydown', event => {
      if (event.key === 'Escape' && !event.isComposing) {
        input.value = '';
        this.changed();
      }
    });
    input.addEventListener('focus', () => this.type(true));
    // A table that is taken out of the page loses the focus, too: its successor gets it.
    input.addEventListener('blur', () => queueMicrotask(() => this.node.isConnected && this.type(false)));
    const box = document.createElement('span');
    box.className = 'traindbg-filter';
    box.append(this.told, input);
    caption.append(box);
    return input;
  }

  private say(words: () => string): string {
    return speaking(this.language, words);
  }

  /** Arrange it as the one was that stood here before. */
  private restore(): void {
    const before = recall(this.node);
    const radio = radioFor(this.node, before ? before.sort : sortOf(this.node));
    if (radio) {
      radio.checked = true;
    }
    const only = onlyOf(this.node);
    if (before && only) {
      only.checked = before.only;
    }
    if (before && this.filter) {
      this.filter.value = before.filter;
      if (before.typing && document.activeElement === document.body) {
        this.filter.focus({ preventScroll: true });
        this.filter.setSelectionRange(before.filter.length, before.filter.length);
      }
    }
  }

  private changed(): void {
    this.sort(sortOf(this.node));
    this.hide(this.filter?.value.trim() ?? '');
    this.remember();
  }

  private type(typing: boolean): void {
    this.typing = typing;
    this.remember();
  }

  private remember(): void {
    remember(this.node, {
      sort: sortOf(this.node),
      filter: this.filter?.value ?? '',
      only: onlyOf(this.node)?.checked ?? false,
      open: !this.node.closest('details:not([open])'),
      typing: this.typing
    });
  }

  private sort(sort: Sort | null): void {
    const rows = sort ? ordered(this.given, row => placeOf(row, sort.column), sort.down) : this.given;
    const now = rowsOf(this.node);
    if (rows.some((row, i) => row !== now[i])) {
      this.node.tBodies[0].append(...rows);
    }
    for (const head of headsOf(this.node)) {
      head.removeAttribute('aria-sort');
    }
    if (sort) {
      headsOf(this.node)[sort.column].setAttribute('aria-sort', sort.down ? 'descending' : 'ascending');
    }
  }

  private hide(filter: string): void {
    // Its columns shrink with what is hidden, and who types would see the filter move.
    this.node.style.minWidth = filter && (this.node.style.minWidth || `${this.node.offsetWidth}px`);
    for (const row of this.given) {
      row.hidden = !passes(
        [...row.cells].map(cell => cell.textContent ?? ''),
        filter
      );
    }
    const all = onlyOf(this.node)?.checked ? this.given.filter(standsOut) : this.given;
    const shown = all.filter(row => !row.hidden).length;
    this.told.textContent = filter && this.say(() => text('{shown} of {all} rows', { shown, all: all.length }));
  }
}

/** The language of the result that the table is in; the page's, where it does not say. */
function languageOf(table: HTMLTableElement): string {
  return table.closest<HTMLElement>('.traindbg-view[lang]')?.lang ?? language();
}
