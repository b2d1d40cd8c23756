// An emergency checkpoint: one click, one confirmation with the facts, its progress, what came of it and how to go on from it.

import './views.css';

import { text } from '../common/language';
import { Card, showCards } from './cards';
import { button, code, el, facts, fill, freshId, say, Trouble, keepKeys } from './dom';
import { Channel, Mounted, View } from './view';

class CheckpointPanel {
  private path = el('input', {
    class: 'tdb-input tdb-path',
    attrs: { type: 'text', autocomplete: 'off', spellcheck: 'false' }
  });
  private save = button(text('Save an emergency checkpoint…'), () => this.plan(), { class: 'tdb-primary tdb-big' });
  private box = el('section', { class: 'tdb-confirm', attrs: { tabindex: '-1' } });
  private progress = el('div', { class: 'tdb-progress', attrs: { 'aria-live': 'polite' } });
  private bar = el('progress');
  private words = el('span');
  private result = el('div', { attrs: { role: 'status' } });
  private verified = el('p', { class: 'tdb-verified' });
  private trouble = new Trouble();
  private end: () => void;

  constructor(
    private root: HTMLElement,
    private channel: Channel
  ) {
    this.end = channel.onMessage(content => this.receive(content));
    this.path.id = freshId('tdb-path');
    this.save.disabled = true; // until there is a path
    this.path.addEventListener('input', () => (this.save.disabled = false));
    this.path.addEventListener('keydown', event => {
      event.stopPropagation();
      if (event.key === 'Enter') {
        this.plan();
      }
    });
    this.bar.setAttribute('aria-label', text('bytes written'));
    this.progress.append(this.bar, this.words);
    this.progress.hidden = true;
    this.box.hidden = true;
    root.append(
      el('p', {
        class: 'tdb-muted',
        text: text(
          'Saves model, optimizer, scheduler, random generators and loader positions of the running job, also of one that hangs. Nothing is written before you confirm.'
        )
      }),
      el(
        'div',
        { class: 'tdb-row' },
        el('label', { text: text('directory to make'), attrs: { for: this.path.id } }),
        this.path
      ),
      el('div', { class: 'tdb-row' }, this.save),
      this.trouble.node,
      this.box,
      this.progress,
      this.result
    );
    keepKeys(root);
    channel.send({ do: 'hello' });
  }

  dispose(): void {
    this.end();
    this.root.replaceChildren();
  }

  private plan(): void {
    this.trouble.clear();
    this.save.disabled = true;
    this.channel.send({ do: 'plan', directory: this.path.value });
  }

  private receive(content: any): void {
    const shown: Record<string, () => void> = {
      hello: () => {
        this.path.value ||= content.directory;
        this.save.disabled = false;
      },
      plan: () => this.confirm(content),
      progress: () => this.moved(content),
      saved: () => this.saved(content),
      verified: () => this.showVerified(content),
      refused: () => this.ended(() => this.trouble.show(content.text, content.next_step, text('Refused'))),
      invalid: () => this.ended(() => this.trouble.show(content.text, content.next_step)),
      failed: () => this.ended(() => this.trouble.show(content.text, content.next_step, content.what))
    };
    shown[content.kind]?.();
  }

  private confirm(content: any): void {
    this.save.disabled = false;
    fill(this.result);
    const against = content.against as string[];
    const replace = el('input', { attrs: { type: 'checkbox' } });
    const mixed = el('input', { attrs: { type: 'checkbox' } });
    const go = button(
      text('Save it now'),
      () =>
        this.channel.send({ do: 'save', plan: content.plan, overwrite: replace.checked, allow_mixed: mixed.checked }),
      { class: 'tdb-primary tdb-go' }
    );
    const allow = (): void => {
      go.disabled = against.length > 0 || (content.replace && !replace.checked);
    };
    replace.addEventListener('change', allow);
    allow();
    const heading = el('h4', { text: text('Save this checkpoint?'), attrs: { id: freshId('tdb-plan') } });
    this.box.setAttribute('aria-labelledby', heading.id);
    fill(
      this.box,
      heading,
      facts(content.facts as [string, string][]),
      el('ul', {}, ...content.lines.map((line: string) => el('li', { text: line }))),
      ...against.map(line => el('p', { class: 'tdb-is-critical', text: `✖ ${line}` })),
      content.replace && el('p', {}, el('label', {}, replace, ` ${text('replace what is there')}`)),
      el(
        'details',
        {},
        el('summary', { text: text('more') }),
        el('label', {}, mixed, ` ${text('also where the ranks are at different steps (its manifest says so)')}`)
      ),
      el(
        'div',
        { class: 'tdb-row' },
        go,
        button(text('Cancel'), () => this.cancel())
      )
    );
    this.box.hidden = false;
    this.box.focus();
  }

  private cancel(): void {
    this.box.hidden = true;
    this.save.focus();
  }

  private moved(content: any): void {
    this.box.hidden = true;
    this.save.disabled = true;
    this.trouble.clear();
    fill(this.result);
    this.progress.hidden = false;
    if (content.written > 0 && content.total > 0) {
      this.bar.max = content.total;
      this.bar.value = content.written;
    } else {
      this.bar.removeAttribute('value'); // how long it takes until the first byte is not known
    }
    say(this.words, content.words);
  }

  private ended(tell: () => void): void {
    this.progress.hidden = true;
    this.box.hidden = true;
    this.save.disabled = false;
    tell();
  }

  private saved(content: any): void {
    this.ended(() => this.trouble.clear());
    const verify = button(text('Verify every byte'), () => this.channel.send({ do: 'verify' }), { class: 'tdb-small' });
    say(
      this.verified,
      content.verifying ? text('reading it again to verify it…') : text('not verified yet: it is large')
    );
    this.verified.className = 'tdb-verified';
    fill(
      this.result,
      el(
        'section',
        { class: 'tdb-done', attrs: { 'aria-label': text('The checkpoint that was saved') } },
        el('h4', { text: `✔ ${text('Saved')}` }),
        facts(content.facts as [string, string][]),
        ...content.notes.map((line: string) => el('p', { class: 'tdb-muted', text: line })),
        el('div', { class: 'tdb-row' }, this.verified, verify)
      ),
      content.cards.length > 0 && showCards(content.cards as Card[], {}),
      el('h3', { class: 'tdb-head3', text: text('How to go on from it') }),
      ...content.code.map((one: { what: string; code: string }) => code(one.code, one.what))
    );
  }

  private showVerified(content: any): void {
    const sign = content.good === null ? '▲ ' : content.good ? '✔ ' : '✖ ';
    say(this.verified, sign + [content.words, ...content.files].join(text('; ')));
    this.verified.className = `tdb-verified ${content.good === null ? 'tdb-is-warning' : content.good ? 'tdb-is-good' : 'tdb-is-critical'}`;
  }
}

export const CHECKPOINT: View = {
  name: 'checkpoint',
  get label() {
    return text('Checkpoint');
  },
  mount(root: HTMLElement, channel: Channel): Mounted {
    const view = new CheckpointPanel(root, channel);
    return { show: () => undefined, hide: () => undefined, dispose: () => view.dispose() };
  }
};
