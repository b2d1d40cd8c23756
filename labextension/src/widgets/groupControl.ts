// The controls of one param group: a logarithmic slider and a number field that follow the training until somebody touches them.

import { number } from '../common/format';
import { counted, text } from '../common/language';
import { button, el, freshId, say } from './dom';

const DECADES = 2;
const PER_DECADE = 50;
const PREVIEW_AFTER_MS = 350;
/** What a schedule can be multiplied by with one click. */
export const FACTORS = [0.1, 0.5, 2, 10];

export interface Group {
  index: number;
  lr: number | null;
  used: number | null;
  next: (number | null)[];
  weight_decay: number | null;
  parameters: number;
  elements: number;
  action: string;
  /** The same in words. */
  action_words: string;
}

export interface Optimizer {
  index: number;
  name: string;
  scheduler: string;
  groups: Group[];
}

export interface Wish {
  mode: 'hold' | 'scale' | 'release' | 'undo';
  value?: string | number | null;
  optimizer?: number | null;
  group?: number | null;
  force?: boolean;
}

/** The value of a slider that stands `at` steps from the middle, where `base` is: three digits are enough to set. */
export function valueAt(base: number, at: number): number {
  return Number((base * 10 ** (at / PER_DECADE)).toPrecision(3));
}

/** Where the slider stands for `value`; its ends are as far as goes without a second confirmation. */
export function positionOf(base: number, value: number): number {
  if (!(base > 0) || !(value > 0)) {
    return 0;
  }
  const at = Math.round(Math.log10(value / base) * PER_DECADE);
  return Math.min(Math.max(at, -DECADES * PER_DECADE), DECADES * PER_DECADE);
}

/** Why `typed` is no learning rate, in one line; empty where it is one. The kernel has the last word. */
export function wrong(typed: string): string {
  const words = typed.trim();
  if (words === '') {
    return text('the learning rate is empty; give a number such as 1e-4');
  }
  const value = Number(words);
  if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(words) || !Number.isFinite(value)) {
    return text('"{words}" is not a number; give a number such as 1e-4', { words: words.slice(0, 40) });
  }
  return value < 0
    ? text('a learning rate must not be negative, and {words} is; give a number of 0 or more', { words })
    : '';
}

/** The controls of one param group. They follow the training until somebody touches them. */
export class GroupControl {
  readonly node: HTMLElement;
  private base: number | null = null;
  private touched = false;
  private timer = 0;
  private used = el('span', { class: 'tdb-figure' });
  private about = el('span', { class: 'tdb-muted' });
  private badge = el('span', { class: 'tdb-badge' });
  private slider = el('input', {
    class: 'tdb-slider',
    attrs: { type: 'range', min: String(-DECADES * PER_DECADE), max: String(DECADES * PER_DECADE), step: '1' }
  });
  private field = el('input', {
    class: 'tdb-input tdb-number',
    attrs: { type: 'text', inputmode: 'decimal', autocomplete: 'off', spellcheck: 'false' }
  });
  private factor = el('span', { class: 'tdb-muted' });
  private error = el('p', { class: 'tdb-trouble', attrs: { role: 'alert' } });
  private release: HTMLButtonElement;

  constructor(
    private optimizer: Optimizer,
    private group: Group,
    private ask: (wish: Wish, focus: boolean) => void
  ) {
    const whose = text('{name}, group {group}', { name: optimizer.name, group: group.index });
    const where = { optimizer: optimizer.index, group: group.index };
    const [slider, field] = [freshId('tdb-slider'), freshId('tdb-field')];
    this.slider.id = slider;
    this.field.id = field;
    this.slider.setAttribute('aria-label', text('Learning rate of {whose}, logarithmic', { whose }));
    this.slider.addEventListener('input', () => this.slid());
    this.slider.addEventListener('keydown', event => event.stopPropagation());
    this.field.addEventListener('input', () => this.typed());
    this.field.addEventListener('keydown', event => {
      event.stopPropagation();
      if (event.key === 'Enter') {
        this.set(true);
      }
    });
    this.release = button(text('Release'), () => this.ask({ mode: 'release', ...where }, true), {
      title: text('Give it back to the schedule')
    });
    const scale = FACTORS.map(factor =>
      button(`× ${factor}`, () => this.ask({ mode: 'scale', value: factor, ...where }, true), {
        class: 'tdb-small',
        attrs: { 'aria-label': text('Multiply the schedule of {whose} by {factor}', { whose, factor }) }
      })
    );
    this.error.hidden = true;
    this.node = el(
      'section',
      { class: 'tdb-group', attrs: { 'aria-label': whose } },
      el(
        'div',
        { class: 'tdb-row tdb-spread' },
        el('strong', { text: text('group {group}', { group: group.index }) }),
        this.badge
      ),
      el('div', { class: 'tdb-row' }, this.used, this.about),
      el(
        'div',
        { class: 'tdb-row tdb-sliderrow' },
        el('span', { class: 'tdb-muted', text: '÷ 100' }),
        this.slider,
        el('span', { class: 'tdb-muted', text: '× 100' })
      ),
      el(
        'div',
        { class: 'tdb-row' },
        el('label', { text: text('set to'), attrs: { for: field } }),
        this.field,
        this.factor,
        button(text('Set…'), () => this.set(true), { class: 'tdb-primary' }),
        button(text('Hold here…'), () => this.ask({ mode: 'hold', value: null, ...where }, true), {
          title: text('Pin it where it is')
        }),
        this.release
      ),
      this.error,
      el('div', { class: 'tdb-row' }, el('span', { class: 'tdb-muted', text: text('scale the schedule') }), ...scale)
    );
    this.update(optimizer, group);
  }

  update(optimizer: Optimizer, group: Group): void {
    this.optimizer = optimizer;
    this.group = group;
    const differs = group.used !== group.lr && group.action !== '';
    say(this.used, number(group.used));
    const ahead = group.next.slice(0, 3).map(lr => number(lr));
    const words = [
      differs ? text('the schedule says {lr}', { lr: number(group.lr) }) : '',
      ahead.length > 0 && !group.action.startsWith('hold') ? text('next {rates}', { rates: ahead.join(', ') }) : '',
      counted('{n:,} parameter', '{n:,} parameters', group.parameters),
      group.weight_decay ? text('weight decay {value}', { value: number(group.weight_decay) }) : ''
    ];
    say(this.about, words.filter(Boolean).join(' · '));
    say(this.badge, group.action ? text('in force: {action}', { action: group.action_words }) : '');
    this.release.disabled = group.action === '';
    if (!this.touched) {
      this.base = group.used;
      this.slider.disabled = !(this.base !== null && this.base > 0);
      this.slider.title = this.slider.disabled
        ? text('It is 0 now, so there is nothing to slide from: use the field')
        : '';
      this.slider.value = '0';
      if (document.activeElement !== this.field) {
        this.field.value = group.used === null ? '' : plain(group.used);
      }
      this.say();
    }
  }

  isAbout(optimizer: number | null | undefined, group: number | null | undefined): boolean {
    return optimizer === this.optimizer.index && group === this.group.index;
  }

  /** Follow the training again. */
  reset(): void {
    window.clearTimeout(this.timer);
    this.touched = false;
    this.complain('');
    this.field.value = this.group.used === null ? '' : plain(this.group.used);
    this.update(this.optimizer, this.group);
  }

  private slid(): void {
    this.touched = true;
    this.field.value = plain(valueAt(this.base ?? 0, Number(this.slider.value)));
    this.complain('');
    this.say();
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.set(false), PREVIEW_AFTER_MS);
  }

  private typed(): void {
    this.touched = true;
    const problem = wrong(this.field.value);
    this.complain('');
    if (problem === '' && this.base !== null) {
      this.slider.value = String(positionOf(this.base, Number(this.field.value)));
    }
    this.say();
  }

  private set(focus: boolean): void {
    window.clearTimeout(this.timer);
    const problem = wrong(this.field.value);
    this.complain(problem);
    if (problem === '') {
      this.touched = true;
      this.ask(
        { mode: 'hold', value: this.field.value.trim(), optimizer: this.optimizer.index, group: this.group.index },
        focus
      );
    }
  }

  private say(): void {
    const value = Number(this.field.value);
    const known = this.base !== null && this.base > 0 && wrong(this.field.value) === '';
    const words = known ? text('{factor} × now', { factor: number(value / this.base!, 3) }) : '';
    say(this.factor, words);
    this.slider.setAttribute(
      'aria-valuetext',
      known ? text('{what} ({words})', { what: this.field.value, words }) : this.field.value
    );
  }

  private complain(words: string): void {
    say(this.error, words && `✖ ${words}`);
    this.field.setAttribute('aria-invalid', String(words !== ''));
  }
}

/** As it would be typed: 0.0003 -> "3e-4". */
export function plain(value: number): string {
  if (value === 0 || (Math.abs(value) >= 0.01 && Math.abs(value) < 1e4)) {
    return String(Number(value.toPrecision(4)));
  }
  return String(Number(value.toPrecision(4)).toExponential()).replace('e+', 'e');
}
