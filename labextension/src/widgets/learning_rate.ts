// The learning rate of each param group: a logarithmic slider and a field, what would happen in words, and what came of it on each rank.

import './views.css';

import { pgettext, text } from '../common/language';
import { Card, showCards } from './cards';
import { button, el, facts, fill, freshId, say, Trouble, keepKeys } from './dom';
import { FACTORS, GroupControl, Optimizer, Wish } from './groupControl';
import { Channel, Mounted, View } from './view';

const SHOWN_GROUPS = 12;
/** What a change has come to on a rank, which the kernel says in English. */
const STATES = (): Record<string, string> => ({
  verified: text('verified'),
  differs: text('differs'),
  armed: text('armed'),
  'in force': text('in force')
});

class LearningRate {
  private controls = new Map<string, GroupControl>();
  private groups = el('div', { class: 'tdb-groups' });
  private whole = el('div', { class: 'tdb-row' });
  private notes = el('div', { class: 'tdb-muted' });
  private box = el('section', { class: 'tdb-confirm', attrs: { tabindex: '-1', 'aria-live': 'polite' } });
  private outcome = el('div', { attrs: { role: 'status' } });
  private log = el('div');
  private trouble = new Trouble();
  private focusBox = false;
  private last: Wish | null = null;
  private end: () => void;

  constructor(
    private root: HTMLElement,
    private channel: Channel
  ) {
    this.end = channel.onMessage(content => this.receive(content));
    this.box.hidden = true;
    fill(this.groups, el('p', { class: 'tdb-muted', text: text('Reading the learning rates…') }));
    root.append(this.trouble.node, this.whole, this.groups, this.box, this.outcome, this.notes, this.log);
    keepKeys(root);
    channel.send({ do: 'hello' });
  }

  dispose(): void {
    this.end();
    this.root.replaceChildren();
  }

  private ask(wish: Wish, focus: boolean): void {
    this.trouble.clear();
    this.focusBox = focus;
    this.last = wish;
    this.channel.send({ do: 'preview', ...wish });
  }

  private receive(content: any): void {
    const shown: Record<string, () => void> = {
      state: () => this.state(content),
      preview: () => this.preview(content),
      applying: () => this.applying(),
      applied: () => this.applied(content),
      refused: () => this.refused(content),
      invalid: () => this.invalid(content),
      failed: () => {
        this.close();
        this.trouble.show(content.text, content.next_step, content.what);
      }
    };
    shown[content.kind]?.();
  }

  private state(content: any): void {
    const optimizers = content.optimizers as Optimizer[];
    const all = optimizers.flatMap(optimizer => optimizer.groups.map(group => ({ optimizer, group })));
    const names = all.map(({ optimizer, group }) => `${optimizer.name}/${optimizer.index}/${group.index}`);
    if (names.join() !== [...this.controls.keys()].join() || all.length === 0) {
      this.build(optimizers, names);
    }
    all
      .slice(0, SHOWN_GROUPS)
      .forEach(({ optimizer, group }, i) => this.controls.get(names[i])?.update(optimizer, group));
    optimizers.forEach(optimizer => {
      const head = this.groups.querySelector(`[data-optimizer="${optimizer.index}"]`);
      if (head instanceof HTMLElement) {
        say(
          head,
          text('{optimizer} of {who} · {scheduler}', {
            optimizer: optimizer.name,
            who: content.ranks,
            scheduler: optimizer.scheduler
          })
        );
      }
    });
    fill(
      this.notes,
      ...[content.differ, ...content.notes, ...content.silent]
        .filter(Boolean)
        .map((line: string) => el('p', { text: line }))
    );
    this.showWhole(all.length, content.in_force, content.log.length);
    this.showLog(content.log);
  }

  private build(optimizers: Optimizer[], names: string[]): void {
    this.whole.after(this.box, this.outcome); // not to be swept away with the groups
    this.controls.clear();
    const parts: HTMLElement[] = [];
    let n = 0;
    for (const optimizer of optimizers) {
      parts.push(el('h3', { class: 'tdb-head3', attrs: { 'data-optimizer': String(optimizer.index) } }));
      for (const group of optimizer.groups) {
        if (n < SHOWN_GROUPS) {
          const control = new GroupControl(optimizer, group, (wish, focus) => this.ask(wish, focus));
          this.controls.set(names[n], control);
          parts.push(control.node);
        } else {
          this.controls.set(names[n], undefined as unknown as GroupControl);
        }
        n += 1;
      }
    }
    if (n > SHOWN_GROUPS) {
      parts.push(
        el('p', {
          class: 'tdb-muted',
          text: text('… and {n} more param groups: change them all at once above, or one by job.set_lr(…, group=N)', {
            n: n - SHOWN_GROUPS
          })
        })
      );
    }
    fill(
      this.groups,
      ...(n > 0 ? parts : [el('p', { class: 'tdb-muted', text: text('No optimizer was found in this job yet.') })])
    );
  }

  private showWhole(groups: number, inForce: number, changes: number): void {
    if (this.whole.childElementCount === 0) {
      const all = { optimizer: null, group: null };
      fill(
        this.whole,
        el('strong', { text: text('All param groups') }),
        ...FACTORS.map(factor =>
          button(`× ${factor}`, () => this.ask({ mode: 'scale', value: factor, ...all }, true), { class: 'tdb-small' })
        ),
        button(text('Hold here…'), () => this.ask({ mode: 'hold', value: null, ...all }, true), { class: 'tdb-small' }),
        button(text('Release all…'), () => this.ask({ mode: 'release', ...all }, true), {
          class: 'tdb-small tdb-releaseall'
        }),
        button(text('Undo the last change…'), () => this.ask({ mode: 'undo' }, true), { class: 'tdb-small tdb-undo' })
      );
    }
    this.whole.hidden = groups === 0;
    (this.whole.querySelector('.tdb-releaseall') as HTMLButtonElement).disabled = inForce === 0;
    (this.whole.querySelector('.tdb-undo') as HTMLButtonElement).disabled = changes === 0;
  }

  private preview(content: any): void {
    const rows = (content.rows as { whose: string; now: string; after: string; ratio: string }[]).map(
      row => [row.whose, `${row.now} → ${row.after}${row.ratio ? `  (${row.ratio})` : ''}`] as [string, string]
    );
    const force = el('input', { attrs: { type: 'checkbox' } });
    force.checked = this.last?.force === true;
    force.addEventListener('change', () => this.ask({ ...this.last!, force: force.checked }, true));
    const warnings = content.warnings as string[];
    const apply = button(text('Apply'), () => this.channel.send({ do: 'apply', preview: content.preview }), {
      class: 'tdb-primary tdb-apply'
    });
    apply.disabled = content.needs_force;
    const heading = el('h4', { text: content.title, attrs: { id: freshId('tdb-preview') } });
    this.box.setAttribute('aria-labelledby', heading.id);
    fill(
      this.box,
      heading,
      facts(rows.slice(0, SHOWN_GROUPS)),
      rows.length > SHOWN_GROUPS &&
        el('p', { class: 'tdb-muted', text: text('… and {n} more', { n: rows.length - SHOWN_GROUPS }) }),
      el('ul', {}, ...content.lines.map((line: string) => el('li', { text: line }))),
      warnings.length > 0 &&
        el(
          'div',
          { class: 'tdb-warned' },
          ...warnings.slice(0, 5).map(line => el('p', { text: `▲ ${line}` })),
          el('label', {}, force, ` ${text('I mean it')}`)
        ),
      el(
        'div',
        { class: 'tdb-row' },
        apply,
        button(text('Cancel'), () => this.cancel())
      )
    );
    this.place();
    this.box.hidden = false;
    fill(this.outcome);
    if (this.focusBox) {
      this.box.focus();
    }
  }

  /** Put the question and what came of it beside what they are about. */
  private place(): void {
    const { optimizer, group } = this.last ?? {};
    const about = [...this.controls].find(([, control]) => control?.isAbout(optimizer, group))?.[1];
    (about?.node ?? this.whole).after(this.box, this.outcome);
  }

  private applying(): void {
    this.box.querySelectorAll('button').forEach(one => (one.disabled = true));
    fill(this.outcome, el('p', { text: text('Waiting for the step at which all ranks change…') }));
  }

  private applied(content: any): void {
    this.close();
    const rows = (content.ranks as any[]).map(rank => {
      const sign = { verified: '✔', differs: '✖', armed: '◌', 'in force': '●' }[rank.state as string] ?? '●';
      const state = STATES()[rank.state as string] ?? rank.state;
      const words = [text('{state} {when}', { state, when: rank.when }), rank.change, rank.note]
        .filter(Boolean)
        .join(' · ');
      return el(
        'li',
        { class: `tdb-state-${rank.state.replace(' ', '-')}` },
        el('span', { text: `${sign} `, attrs: { 'aria-hidden': 'true' } }),
        el('strong', { text: rank.ranks }),
        text(': '),
        words
      );
    });
    const title = content.same_step
      ? text('{change}, on all ranks at the same step', { change: content.title })
      : (content.title as string);
    fill(
      this.outcome,
      el('div', { class: 'tdb-done' }, el('h4', { text: title }), el('ul', {}, ...rows)),
      content.cards.length > 0 && showCards(content.cards as Card[], {}),
      ...content.silent.map((line: string) => el('p', { text: line }))
    );
  }

  private refused(content: any): void {
    this.close();
    fill(
      this.outcome,
      el(
        'div',
        { class: 'tdb-refused' },
        el('h4', { text: `✖ ${text('Refused')}` }),
        el('p', { text: text('{cause}; {next_step}', { cause: content.text, next_step: content.next_step }) })
      )
    );
  }

  private invalid(content: any): void {
    this.box.hidden = true;
    this.trouble.show(content.text, content.next_step);
  }

  private cancel(): void {
    this.close();
    this.whole.querySelector('button')?.focus();
  }

  private close(): void {
    this.box.hidden = true;
    this.controls.forEach(control => control?.reset());
  }

  private showLog(log: { step: string; at: string; change: string; rows: string }[]): void {
    if (log.length === 0) {
      fill(this.log);
      return;
    }
    const words = JSON.stringify(log);
    if (this.log.dataset.words === words) {
      return;
    }
    this.log.dataset.words = words;
    const rows = log.map(entry =>
      el(
        'tr',
        {},
        el('td', { text: entry.step }),
        el('td', { text: entry.at }),
        el('td', { text: entry.change }),
        el('td', { text: entry.rows })
      )
    );
    const heads = [text('from step'), pgettext('a time', 'at'), text('change'), text('before → after')].map(title =>
      el('th', { text: title, attrs: { scope: 'col' } })
    );
    fill(
      this.log,
      el('h3', { class: 'tdb-head3', text: text('Changes, newest first') }),
      el(
        'div',
        {
          class: 'tdb-scroll',
          attrs: {
            style: 'max-height: 160px',
            tabindex: '0',
            role: 'region',
            'aria-label': text('{table}, scrolls', { table: text('Changes') })
          }
        },
        el('table', { class: 'tdb-table' }, el('thead', {}, el('tr', {}, ...heads)), el('tbody', {}, ...rows))
      )
    );
  }
}

export const LEARNING_RATE: View = {
  name: 'learning_rate',
  get label() {
    return text('Learning rate');
  },
  mount(root: HTMLElement, channel: Channel): Mounted {
    const view = new LearningRate(root, channel);
    return { show: () => undefined, hide: () => undefined, dispose: () => view.dispose() };
  }
};
