// The diagnosis: what is wrong as cards, stacks with the ranks that share them, ranks by process groups, and every worker in a table.

import './views.css';

import { duration } from '../common/format';
import { counted, pgettext, text } from '../common/language';
import { Card, showCards } from './cards';
import { Column, DataTable } from './dataTable';
import { Cell, cellTitle, cellWords, checkWords, countWorkers, roleWords, stateWords, taken } from './diagnosisWords';
import { button, el, fill, linked, say, Trouble, keepKeys } from './dom';
import { Channel, Mounted, View } from './view';

interface Worker {
  rank: number;
  who: string;
  pid: number | null;
  state: string;
  odd: number;
  doing: string;
  where: string;
  step: number | null;
  since_s: number | null;
  link?: Record<string, string> | null;
}

interface Check {
  topic: string;
  state: string;
  words: string;
  verb: string;
}

interface Frame {
  place: string;
  path: string;
  library: boolean;
  link?: Record<string, string> | null;
}

interface StackGroup {
  ranks: string;
  count: number;
  threads: number;
  name: string;
  role: string;
  source: string;
  where: string;
  state: string;
  note: string;
  link?: Record<string, string> | null;
  runs: { folded: string; frames: Frame[] }[];
}

interface MatrixRow {
  ranks: string;
  count: number;
  blamed: boolean;
  cells: (Cell | null)[];
  waits_in: string;
  for_s: number | null;
  at: string;
}

const SIGNS: Record<string, string> = { bad: '✖', warning: '▲', good: '✔' };
const CHECK_SIGNS: Record<string, string> = { fine: '✔', trouble: '✖', 'not known': '?' };
const STATE_SIGNS: Record<string, string> = {
  stopped: '✖',
  ended: '✖',
  'not seen': '▲',
  'not known': '?',
  computing: '▶',
  stepping: '▶',
  waiting: '◌',
  starting: '…',
  idle: '·'
};

function workers(named: boolean): Column<Worker>[] {
  return [
    {
      name: 'rank',
      title: named ? text('worker') : text('rank'),
      value: row => (named && row.who ? row.who : row.rank),
      right: !named
    },
    { name: 'pid', title: text('pid'), value: row => row.pid, right: true },
    {
      name: 'state',
      title: text('state'),
      value: row => row.odd,
      show: row => `${STATE_SIGNS[row.state] ?? '●'} ${stateWords(row.state)}`
    },
    { name: 'doing', title: text('doing'), value: row => row.doing, wrap: true },
    {
      name: 'where',
      title: text('where'),
      value: row => row.where || null,
      show: row => shortPlace(row.where),
      link: row => row.link,
      wrap: true
    },
    { name: 'step', title: text('step'), value: row => row.step, right: true },
    { name: 'since', title: text('for'), value: row => row.since_s, show: row => duration(row.since_s), right: true }
  ];
}

/** The file by its name only. */
export function shortPlace(where: string): string {
  const [path, ...rest] = where.split(' ');
  return where === '' ? '–' : [path.slice(path.lastIndexOf('/') + 1), ...rest].join(' ');
}

class DiagnosisPanel {
  private buttons: Record<string, HTMLButtonElement> = {};
  private tools = el('div', { class: 'tdb-row' });
  private doing = el('span', { class: 'tdb-muted', attrs: { role: 'status' } });
  private trouble = new Trouble();
  private verdict = el('div', { attrs: { 'aria-live': 'polite' } });
  private cards = el('div');
  private why = el('div');
  private checks = el('div');
  private stacks = el('div', { attrs: { tabindex: '-1' } });
  private matrix = el('div', { attrs: { tabindex: '-1' } });
  private ranks = el('div');
  private rankTable: DataTable<Worker> | null = null;
  private named = false;
  private rayTable: DataTable<Worker> | null = null;
  private ray = el('div');
  private wanted = '';
  private end: () => void;

  constructor(
    private root: HTMLElement,
    private channel: Channel
  ) {
    this.end = channel.onMessage(content => this.receive(content));
    const labels = {
      diagnose: text('Diagnose'),
      stacks: text('Stacks'),
      collectives: text('Collectives'),
      workers: text('Ray workers')
    };
    for (const [name, label] of Object.entries(labels)) {
      this.buttons[name] = button(label, () => this.ask(name), { class: name === 'diagnose' ? 'tdb-primary' : '' });
      this.tools.append(this.buttons[name]);
    }
    this.buttons.workers.hidden = true;
    this.tools.append(
      button(text('Save a checkpoint…'), this.acts().checkpoint, {
        title: text('Opens its view, which asks before it writes')
      }),
      this.doing
    );
    root.append(
      this.tools,
      this.trouble.node,
      this.verdict,
      this.cards,
      this.why,
      this.checks,
      this.ranks,
      this.ray,
      this.stacks,
      this.matrix
    );
    keepKeys(root);
    channel.send({ do: 'hello' });
  }

  dispose(): void {
    this.end();
    this.root.replaceChildren();
  }

  private ask(what: string): void {
    this.trouble.clear();
    this.wanted = what;
    this.channel.send({ do: what });
  }

  private receive(content: any): void {
    const shown: Record<string, () => void> = {
      hello: () => {
        this.buttons.workers.hidden = !content.can.includes('workers');
        this.busy(content.doing);
      },
      doing: () => this.busy(content.doing),
      diagnosis: () => this.diagnosed(content),
      stacks: () => this.showStacks(content),
      collectives: () => this.showMatrix(content),
      workers: () => this.showRay(content),
      failed: () => this.trouble.show(content.text, content.next_step, content.what)
    };
    shown[content.kind]?.();
  }

  private busy(doing: string[]): void {
    for (const [name, one] of Object.entries(this.buttons)) {
      one.setAttribute('aria-busy', String(doing.includes(name)));
      one.disabled = doing.includes(name);
    }
    const words: Record<string, string> = {
      diagnose: text('looking at every rank for some seconds…'),
      stacks: text('reading the stacks…'),
      collectives: text('reading the flight recorders…'),
      workers: text('asking Ray…')
    };
    say(this.doing, doing.map(name => words[name] ?? '').join(' '));
  }

  private acts(): Record<string, () => void> {
    const open = (view: string) => () =>
      this.root.dispatchEvent(new CustomEvent('traindbg:open', { bubbles: true, detail: { view } }));
    return {
      stacks: () => this.ask('stacks'),
      collectives: () => this.ask('collectives'),
      checkpoint: open('checkpoint'),
      learning_rate: open('learning_rate'),
      first_nan: open('gradients')
    };
  }

  private diagnosed(content: any): void {
    this.trouble.clear();
    const found = content.cards.length as number;
    fill(
      this.verdict,
      el(
        'p',
        { class: `tdb-verdict tdb-tone-${content.tone}` },
        el('span', { text: `${SIGNS[content.tone] ?? '●'} `, attrs: { 'aria-hidden': 'true' } }),
        content.words,
        el('span', { class: 'tdb-muted', text: ` · ${taken(content)}` })
      ),
      found === 0 && el('p', { class: 'tdb-muted', text: text('Nothing wrong was found.') })
    );
    fill(this.cards, showCards(content.cards as Card[], this.acts()));
    const judged = [...content.why, ...content.silent] as string[];
    fill(
      this.why,
      judged.length > 0 &&
        el(
          'details',
          { attrs: { class: 'tdb-why' } },
          el('summary', { text: text('Judged by') }),
          el('ul', {}, ...judged.map(line => el('li', { text: line })))
        )
    );
    this.showChecks(content.checks as Check[]);
    if (this.rankTable === null || this.named !== content.named) {
      this.named = content.named;
      this.rankTable = new DataTable<Worker>(this.named ? text('Workers') : text('Ranks'), workers(this.named), {
        keep: 'diagnosis-ranks',
        sort: 'state',
        counts: this.named ? countWorkers : n => counted('{n:,} rank', '{n:,} ranks', n),
        height: '300px'
      });
      fill(this.ranks, this.rankTable.node);
    }
    this.rankTable.update(content.ranks as Worker[]);
    this.ranks.hidden = content.ranks.length === 0;
  }

  private showChecks(checks: Check[]): void {
    const line = (check: Check) =>
      el(
        'li',
        { class: check.state === 'not known' ? 'tdb-muted' : '' },
        `${CHECK_SIGNS[check.state] ?? '●'} ${text('{topic}: {state}, {words}', {
          topic: check.topic,
          state: checkWords(check.state),
          words: check.words
        })} · `,
        el('code', { text: `%${check.verb}` })
      );
    fill(
      this.checks,
      checks.length > 0 &&
        el(
          'details',
          { attrs: { class: 'tdb-why' } },
          el('summary', { text: text('Also looked at') }),
          el('ul', {}, ...checks.map(line))
        )
    );
  }

  private showRay(content: any): void {
    if (this.rayTable === null) {
      this.rayTable = new DataTable<Worker>(text('Ray workers'), workers(true), {
        keep: 'diagnosis-ray',
        sort: 'state',
        counts: countWorkers,
        height: '300px'
      });
      fill(this.ray, this.rayTable.node);
    }
    this.rayTable.update(content.rows as Worker[]);
  }

  private showStacks(content: any): void {
    const open = new Set(
      [...this.stacks.querySelectorAll('details[open]')].map(one => (one as HTMLElement).dataset.key)
    );
    const fresh = this.stacks.childElementCount === 0;
    const sections = content.sections as { title: string; groups: StackGroup[] }[];
    fill(
      this.stacks,
      el(
        'h3',
        { class: 'tdb-head3', text: text('Stacks') },
        el('span', {
          class: 'tdb-muted',
          text: ` · ${text('{taken}; identical ones once', { taken: taken(content) })}`
        })
      ),
      ...content.silent.map((line: string) => el('p', { class: 'tdb-is-warning', text: line })),
      el(
        'ul',
        { class: 'tdb-tree', attrs: { 'aria-label': text('Stacks') } },
        ...sections.map((section, s) => this.section(section, fresh ? s === 0 : null, open))
      ),
      content.more > 0 &&
        el('p', {
          class: 'tdb-muted',
          text: text('… and {n} more places; job.stacks() has them all', { n: content.more })
        })
    );
    this.reveal('stacks', this.stacks);
  }

  private section(
    section: { title: string; groups: StackGroup[] },
    first: boolean | null,
    open: Set<string | undefined>
  ): HTMLElement {
    const threads = section.groups.reduce((sum, group) => sum + group.threads, 0);
    const title = counted(
      '{title} ({threads}, at {n} place)',
      '{title} ({threads}, at {n} places)',
      section.groups.length,
      {
        title: section.title,
        threads
      }
    );
    const inner = section.groups.map((group, g) =>
      this.group(group, `${section.title}/${group.where}/${group.ranks}`, first === true && g < 2, open)
    );
    return this.fold(title, [], el('ul', {}, ...inner), section.title, first ?? false, open);
  }

  private group(group: StackGroup, key: string, wide: boolean, open: Set<string | undefined>): HTMLElement {
    const head = [
      el('strong', { text: group.ranks }),
      group.role === 'rank' ? '' : ` ${roleWords(group.role)}`,
      group.name && group.name !== 'MainThread' ? ` ${group.name}` : '',
      group.threads > group.count ? ` ${text('({n} threads)', { n: group.threads })}` : '',
      ' ',
      linked(group.link, el('code', { text: group.where })),
      el('span', {
        class: 'tdb-muted',
        text: ` ${[group.state, group.source === 'agent' ? '' : text('by {source}', { source: group.source }), group.note].filter(Boolean).join(' · ')}`
      })
    ];
    const frames = group.runs.map((run, r) => {
      const lines = run.frames.map(frame =>
        el(
          'li',
          { class: frame.library ? 'tdb-library' : 'tdb-user' },
          linked(frame.link, el('code', { text: frame.place, title: frame.path }))
        )
      );
      const list = el('ol', { class: 'tdb-frames' }, ...lines);
      return run.folded ? this.fold(run.folded, [], list, `${key}/${r}`, false, open) : el('li', {}, list);
    });
    return this.fold('', head, el('ul', {}, ...frames), key, wide, open);
  }

  /** A branch of the tree: what a reader has opened stays so when the stacks are read anew. */
  private fold(
    title: string,
    head: (Node | string)[],
    inner: HTMLElement,
    key: string,
    wide: boolean,
    open: Set<string | undefined>
  ): HTMLElement {
    const details = el('details', { attrs: { 'data-key': key } }, el('summary', {}, title, ...head), inner);
    details.open = wide || open.has(key);
    return el('li', {}, details);
  }

  private showMatrix(content: any): void {
    const rows = content.rows as MatrixRow[];
    const families = content.families as string[];
    const heads = [text('ranks'), ...families, text('waits in'), text('for'), pgettext('a place', 'at')].map(title =>
      el('th', { text: title, attrs: { scope: 'col' } })
    );
    const body = rows.map(row =>
      el(
        'tr',
        { class: row.blamed ? 'tdb-blamed' : '' },
        el('th', { attrs: { scope: 'row' }, text: `${row.blamed ? '✖ ' : ''}${row.ranks}` }),
        ...row.cells.map(cell => el('td', { class: cellClass(cell), text: cellWords(cell), title: cellTitle(cell) })),
        el('td', { text: row.waits_in || '–' }),
        el('td', { text: duration(row.for_s) }),
        el('td', {}, el('code', { text: row.at || '–' }))
      )
    );
    const notes = [content.missing, ...content.silent, ...content.notes].filter(Boolean) as string[];
    fill(
      this.matrix,
      el(
        'h3',
        { class: 'tdb-head3', text: text('Ranks by process groups') },
        el('span', {
          class: 'tdb-muted',
          text: ` · ${text('{taken}; last issued / last completed; ▼ so many behind the foremost', { taken: taken(content) })}`
        })
      ),
      content.cards.length > 0 && showCards(content.cards as Card[], this.acts()),
      families.length === 0
        ? el('p', {
            class: 'tdb-muted',
            text: text('This job has no process groups: it is one process, or has not made them yet.')
          })
        : el(
            'div',
            {
              class: 'tdb-scroll',
              attrs: {
                tabindex: '0',
                role: 'region',
                'aria-label': text('{table}, scrolls', { table: text('Ranks by process groups') }),
                style: 'max-height: 340px'
              }
            },
            el(
              'table',
              { class: 'tdb-table tdb-matrix' },
              el('caption', { class: 'tdb-unseen', text: text('Ranks by process groups') }),
              el('thead', {}, el('tr', {}, ...heads)),
              el('tbody', {}, ...body)
            )
          ),
      content.more_families > 0 &&
        el('p', { class: 'tdb-muted', text: text('… and {n} more kinds of groups', { n: content.more_families }) }),
      ...notes.map(line => el('p', { class: 'tdb-muted', text: line }))
    );
    this.reveal('collectives', this.matrix);
  }

  /** Bring to sight what this page asked for, and only that. */
  private reveal(what: string, node: HTMLElement): void {
    if (this.wanted === what) {
      this.wanted = '';
      node.focus({ preventScroll: true });
      node.scrollIntoView?.({ block: 'nearest' });
    }
  }
}

function cellClass(cell: Cell | null): string {
  return cell === null ? 'tdb-none' : cell.behind > 0 ? 'tdb-behind' : cell.waits ? 'tdb-waits' : '';
}

export const DIAGNOSIS: View = {
  name: 'diagnosis',
  get label() {
    return text('Diagnosis');
  },
  mount(root: HTMLElement, channel: Channel): Mounted {
    const view = new DiagnosisPanel(root, channel);
    return { show: () => undefined, hide: () => undefined, dispose: () => view.dispose() };
  }
};
