// Elements with text in them, never markup: whatever a training printed stays text.

import { text } from '../common/language';

export type Child = Node | string | null | undefined | false;

interface Options {
  class?: string;
  text?: string;
  title?: string;
  attrs?: Record<string, string>;
  on?: Record<string, (event: any) => void>;
}

/** An element with its attributes, listeners and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  options: Options = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (options.class) {
    made.className = options.class;
  }
  if (options.text !== undefined) {
    made.textContent = options.text;
  }
  if (options.title) {
    made.title = options.title;
  }
  for (const [name, value] of Object.entries(options.attrs ?? {})) {
    made.setAttribute(name, value);
  }
  for (const [name, listener] of Object.entries(options.on ?? {})) {
    made.addEventListener(name, listener);
  }
  made.append(...children.filter((child): child is Node | string => !!child));
  return made;
}

export function button(label: string, onClick: () => void, options: Options = {}): HTMLButtonElement {
  const made = el('button', { ...options, class: `tdb-button ${options.class ?? ''}`.trim(), text: label });
  made.type = 'button';
  made.addEventListener('click', onClick);
  return made;
}

/** What leads somewhere: see src/links/markup.ts. */
const LEADING = /^(data-traindbg-(file|line|cell|page)|href|target|rel)$/;
const SCHEMES = ['', 'http', 'https', 'vscode'];

/** `child` inside a link with these attributes; `child` alone where there are none that lead somewhere. */
export function linked(attributes: Record<string, string> | null | undefined, child: Node | string): Node | string {
  const attrs = Object.entries(attributes ?? {}).filter(
    ([name, value]) => LEADING.test(name) && (name !== 'href' || SCHEMES.includes(schemeOf(value)))
  );
  return attrs.length === 0
    ? child
    : el(
        'a',
        { class: 'traindbg-link', attrs: { ...Object.fromEntries(attrs), 'data-lm-suppress-shortcuts': 'true' } },
        child
      );
}

/** As a browser finds it, which passes over blanks and line ends. */
function schemeOf(address: string): string {
  const [, scheme = ''] = /^([a-z][\w+.-]*):/i.exec(address.replace(/[\0-\x20]/g, '')) ?? [];
  return scheme.toLowerCase();
}

/** Put `children` in the place of what `parent` has; null where there is nothing. */
export function fill(parent: HTMLElement, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child): child is Node | string => !!child));
}

/** Set a text only where it is another one: a live region would say it again, and a selection would be lost. */
export function say(node: HTMLElement, words: string): void {
  if (node.textContent !== words) {
    node.textContent = words;
  }
  node.hidden = words === '';
}

/** Pairs of a name and a text, one below the other. */
export function facts(pairs: [string, string][]): HTMLElement {
  const list = el('dl', { class: 'tdb-facts' });
  for (const [name, words] of pairs) {
    list.append(el('dt', { text: name }), el('dd', { text: words }));
  }
  return list;
}

/** A line of code and a button that copies it. */
export function code(words: string, what: string): HTMLElement {
  const shown = el('code', { text: words });
  const said = el('span', { class: 'tdb-copied', attrs: { role: 'status' } });
  const copy = button(
    text('Copy'),
    () => {
      void copyText(words, shown).then(done => say(said, done ? text('copied') : text('selected: press Ctrl+C')));
    },
    { class: 'tdb-small', attrs: { 'aria-label': text('Copy: {what}', { what }) } }
  );
  return el('div', { class: 'tdb-code' }, el('div', { class: 'tdb-muted', text: what }), shown, copy, said);
}

async function copyText(words: string, shown: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    window.getSelection()?.selectAllChildren(shown); // a page that may not write to the clipboard
    return false;
  }
}

/** One line where something went wrong: the cause, and what to do. */
export class Trouble {
  readonly node = el('p', { class: 'tdb-trouble', attrs: { role: 'alert' } });

  constructor() {
    this.node.hidden = true;
  }

  show(cause: string, next = '', what = ''): void {
    const why = next ? text('{cause}; {next_step}', { cause, next_step: next }) : cause;
    const words = what ? text('{what}: {words}', { what, words: why }) : why;
    fill(this.node, el('span', { class: 'tdb-sign', text: '✖', attrs: { 'aria-hidden': 'true' } }), words);
    this.node.hidden = false;
  }

  clear(): void {
    this.node.hidden = true;
    fill(this.node);
  }
}

/** Keep keys that a control here understands from the notebook around it, where Enter, arrows and letters are commands. */
export function keepKeys(root: HTMLElement): void {
  root.addEventListener('keydown', event => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key !== 'Escape') {
      event.stopPropagation();
    }
  });
}

let numbered = 0;

/** An id that nothing else in the page has. */
export function freshId(prefix: string): string {
  numbered += 1;
  return `${prefix}-${numbered}-${Math.random().toString(36).slice(2, 8)}`;
}
