// Findings as cards: how bad, in a word and a sign; who, where, the evidence, the cause, what to do now.

import { Excerpt, numbered } from '../common/format';
import { pgettext, text } from '../common/language';
import { button, Child, el, linked } from './dom';

export interface Step {
  text: string;
  does: string | null;
}

export interface Card {
  severity: string;
  word: string;
  code: string;
  title: string;
  who: string[];
  where: string | null;
  /** The attributes of the link to it. */
  link?: Record<string, string> | null;
  source: Excerpt | null;
  evidence: string[];
  cause: string;
  next_steps: Step[];
  confidence: string;
  reference: string | null;
  reference_link?: Record<string, string> | null;
}

const MOST_WHO = 8;
const MOST_LINES = 4;
const SIGNS: Record<string, string> = { critical: '✖', warning: '▲', info: '●' };
const LABELS = (): Record<string, string> => ({
  stacks: text('Show the stacks'),
  collectives: text('Show the collectives'),
  checkpoint: text('Save a checkpoint…'),
  first_nan: text('Arm first-NaN'),
  learning_rate: text('Learning rate…')
});

/** Cards in the order given. `act` is called with what a button does; buttons that it does not know are left out. */
export function showCards(cards: Card[], acts: Record<string, () => void>): HTMLElement {
  return el('div', { class: 'tdb-cards' }, ...cards.map(card => showCard(card, acts)));
}

function showCard(card: Card, acts: Record<string, () => void>): HTMLElement {
  const known = card.severity in SIGNS ? card.severity : 'info';
  const head = el(
    'h4',
    { class: 'tdb-card-head' },
    el('span', { class: `tdb-severity tdb-is-${known}`, text: `${SIGNS[known]} ${card.word}` }),
    ' ',
    el('span', { class: 'tdb-card-title', text: card.title })
  );
  const list = el('dl', { class: 'tdb-facts' });
  const labels = LABELS();
  row(list, pgettext('of a finding', 'who'), card.who.length > 0 && people(card.who));
  row(
    list,
    text('where'),
    card.where && linked(card.link, el('code', { text: nearer(card.where), title: card.where }))
  );
  row(list, text('source'), card.source && code(card.source));
  row(list, text('evidence'), lines(card.evidence));
  row(list, text('cause'), card.cause);
  row(
    list,
    text('next steps'),
    items(
      'ol',
      card.next_steps.map(step => step.text)
    )
  );
  row(list, text('confidence'), confidence(card));
  row(list, text('reference'), card.reference && linked(card.reference_link, card.reference));
  const does = [...new Set(card.next_steps.map(step => step.does))].filter(
    (name): name is string => name !== null && name in acts && name in labels
  );
  const buttons = does.map(name => button(labels[name], acts[name], { attrs: { 'data-does': name } }));
  return el(
    'section',
    {
      class: `tdb-card tdb-card-${known}`,
      attrs: { 'aria-label': text('{what}: {words}', { what: card.word, words: card.title }) }
    },
    head,
    list,
    buttons.length > 0 && el('div', { class: 'tdb-row' }, ...buttons),
    el('div', { class: 'tdb-card-code', text: card.code })
  );
}

function row(list: HTMLElement, name: string, value: Child): void {
  if (value) {
    list.append(el('dt', { text: name }), el('dd', {}, value));
  }
}

/** "/home/ada/runs/src/train.py:3 f" -> "…/src/train.py:3 f": the whole path where the pointer rests. */
export function nearer(where: string): string {
  const [, path, rest] = /^(\/.*?)(:\d+ .*)?$/.exec(where) ?? [];
  const parts = (path ?? '').split('/');
  return parts.length > 3 ? `…/${parts.slice(-2).join('/')}${rest ?? ''}` : where;
}

function confidence(card: Card): string {
  const words: Record<string, string> = { high: text('high'), medium: text('medium'), low: text('low') };
  return words[card.confidence] ?? card.confidence;
}

function code(source: Excerpt): HTMLElement {
  const rows = numbered(source).map(row => el(row.meant ? 'strong' : 'span', { text: row.text }));
  return el('pre', { class: 'tdb-source' }, ...rows);
}

/** The first ones by name; all of them where the pointer rests. */
function people(who: string[]): HTMLElement {
  const list = (some: string[]): string => some.join(pgettext('list', ', '));
  return who.length > MOST_WHO
    ? el('span', {
        text: text('{who} and {n} more', { who: list(who.slice(0, MOST_WHO)), n: who.length - MOST_WHO }),
        title: list(who)
      })
    : el('span', { text: list(who) });
}

/** The first lines, and the others behind a fold: a card is to be read at a glance. */
function lines(texts: string[]): HTMLElement | null {
  if (texts.length <= MOST_LINES + 1) {
    return items('ul', texts);
  }
  const rest = texts.slice(MOST_LINES);
  return el(
    'div',
    {},
    items('ul', texts.slice(0, MOST_LINES)),
    el('details', {}, el('summary', { text: text('{n} more', { n: rest.length }) }), items('ul', rest))
  );
}

function items(kind: 'ul' | 'ol', texts: string[]): HTMLElement | null {
  return texts.length === 0 ? null : el(kind, {}, ...texts.map(text => el('li', { text })));
}
