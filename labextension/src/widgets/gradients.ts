// Gradients: a heat map of layers and steps, a table of the parameters, and the watch for the first NaN.

import './views.css';

import { number, percent } from '../common/format';
import { counted, text, whole } from '../common/language';
import { Card, showCards } from './cards';
import { Column, DataTable } from './dataTable';
import { button, el, fill, freshId, say, Trouble, keepKeys } from './dom';
import { BAD, colour, HeatMap, Place, Scale, scaleOf } from './heat';
import { Channel, Mounted, View } from './view';

export const MOST_COLUMNS = 240;
const NOT_THERE = -1;

type Metric = 'norms' | 'zeros' | 'bad';
const METRICS: { name: Metric; log: boolean }[] = [
  { name: 'norms', log: true },
  { name: 'zeros', log: false },
  { name: 'bad', log: true }
];

function labelOf(metric: Metric): string {
  return { norms: text('norm'), zeros: text('share of zeros'), bad: text('NaN + Inf') }[metric];
}

interface Parameter {
  name: string;
  shape: number[];
  dtype: string;
  layer: number;
}

interface Layout {
  layers: string[];
  parameters: Parameter[];
}

export interface Row extends Parameter {
  norm: number;
  max: number;
  zeros: number;
  nan: number;
  inf: number;
  ranks: string;
}

/** What was seen so far: for each metric, a column a look. */
export class History {
  steps: (number | null)[] = [];
  columns: Record<Metric, Float32Array[]> = { norms: [], zeros: [], bad: [] };

  add(step: number | null, norms: Float32Array, zeros: Float32Array, bad: Float32Array): void {
    this.steps.push(step);
    this.columns.norms.push(norms);
    this.columns.zeros.push(zeros);
    this.columns.bad.push(bad);
    if (this.steps.length > MOST_COLUMNS) {
      this.steps.shift();
      METRICS.forEach(metric => this.columns[metric.name].shift());
    }
  }

  /** Everything anew, from one buffer a metric with the columns one after the other. */
  replace(steps: (number | null)[], rows: number, buffers: DataView[]): void {
    this.steps = steps.slice();
    METRICS.forEach((metric, i) => {
      const all = floats(buffers[i]);
      this.columns[metric.name] = steps.map((_, c) => all.slice(c * rows, (c + 1) * rows));
    });
  }
}

/** A copy, since a buffer may begin anywhere and numbers may not. */
export function floats(view: DataView | undefined): Float32Array {
  return view
    ? new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength))
    : new Float32Array();
}

export function rowsOf(parameters: Parameter[], buffers: DataView[], ranks: Record<string, string>): Row[] {
  const [norm, max, zeros, nan, inf] = buffers.map(floats);
  return parameters.map((parameter, i) => ({
    ...parameter,
    norm: norm[i],
    max: max[i],
    zeros: zeros[i],
    nan: nan[i],
    inf: inf[i],
    ranks: ranks[parameter.name] ?? ''
  }));
}

const known = (value: number): number | null => (value === NOT_THERE ? null : value);
const COLUMNS = (): Column<Row>[] => [
  { name: 'name', title: text('parameter'), value: row => row.name, wrap: true },
  {
    name: 'shape',
    title: text('shape'),
    value: row => row.shape.reduce((a, b) => a * b, 1),
    show: row => `[${row.shape.join(', ')}]`
  },
  { name: 'dtype', title: text('dtype'), value: row => row.dtype },
  {
    name: 'norm',
    title: text('norm'),
    value: row => known(row.norm),
    show: row => number(known(row.norm)),
    right: true,
    class: row => bad(row.norm)
  },
  {
    name: 'max',
    title: text('max |g|'),
    value: row => known(row.max),
    show: row => number(known(row.max)),
    right: true
  },
  {
    name: 'zeros',
    title: text('zeros'),
    value: row => known(row.zeros),
    show: row => percent(known(row.zeros)),
    right: true
  },
  {
    name: 'nan',
    title: 'NaN',
    value: row => row.nan,
    show: row => number(row.nan),
    right: true,
    class: row => (row.nan > 0 ? 'tdb-is-critical' : '')
  },
  {
    name: 'inf',
    title: 'Inf',
    value: row => row.inf,
    show: row => number(row.inf),
    right: true,
    class: row => (row.inf > 0 ? 'tdb-is-critical' : '')
  },
  { name: 'ranks', title: text('not finite on'), value: row => row.ranks || null, wrap: true }
];

function bad(value: number): string {
  return Number.isFinite(value) ? '' : 'tdb-is-critical';
}

class Gradients {
  private layout: Layout = { layers: [], parameters: [] };
  private history = new History();
  private metric: Metric = 'norms';
  private heat = new HeatMap(place => this.tell(place));
  private read = el('p', { class: 'tdb-read', attrs: { 'aria-live': 'polite' } });
  private about = el('p', { class: 'tdb-muted' });
  private notes = el('div', { class: 'tdb-muted' });
  private legend = el('div', { class: 'tdb-legend' });
  private watch = el('p', { class: 'tdb-watchline', attrs: { role: 'status' } });
  private fired = el('div');
  private found = el('div');
  private arm = button(text('Arm first-NaN'), () => this.send('arm'));
  private disarm = button(text('Disarm'), () => this.send('disarm'));
  private trouble = new Trouble();
  private table = new DataTable<Row>(text('Parameters'), COLUMNS(), {
    keep: 'gradients',
    counts: n => counted('{n:,} parameter', '{n:,} parameters', n),
    height: '260px'
  });
  private end: () => void;

  constructor(
    private root: HTMLElement,
    private channel: Channel
  ) {
    this.end = channel.onMessage((content, buffers) => this.receive(content, buffers));
    const cost = text(
      'Watches every module, step by step, until one gives out a NaN or Inf. Slows these steps (up to 1.9 ×), changes no value.'
    );
    this.arm.title = cost;
    say(this.watch, '');
    this.disarm.hidden = true;
    const scroll = el('div', { class: 'tdb-heatbox' }, this.heat.node);
    root.append(
      el(
        'div',
        { class: 'tdb-row tdb-spread' },
        this.choice(),
        el('span', { class: 'tdb-row' }, this.arm, this.disarm)
      ),
      el('p', {
        class: 'tdb-muted tdb-small-text',
        text: text('{what}: {words}', { what: text('First-NaN'), words: cost })
      }),
      this.trouble.node,
      this.watch,
      this.fired,
      this.legend,
      scroll,
      this.read,
      this.about,
      this.notes,
      this.found,
      this.table.node
    );
    this.heat.connect();
    this.draw();
    keepKeys(root);
    channel.send({ do: 'hello' });
  }

  dispose(): void {
    this.end();
    this.heat.dispose();
    this.root.replaceChildren();
  }

  redraw(): void {
    this.draw();
  }

  private choice(): HTMLElement {
    const name = freshId('tdb-metric');
    const group = el('div', {
      class: 'tdb-choice',
      attrs: { role: 'radiogroup', 'aria-label': text('What is drawn') }
    });
    for (const metric of METRICS) {
      const input = el('input', { attrs: { type: 'radio', name, value: metric.name } });
      input.checked = metric.name === this.metric;
      input.addEventListener('change', () => {
        this.metric = metric.name;
        this.send('detail', { on: metric.name !== 'norms' });
        this.draw();
      });
      group.append(el('label', {}, input, labelOf(metric.name)));
    }
    return group;
  }

  private send(what: string, more: object = {}): void {
    this.trouble.clear();
    this.channel.send({ do: what, ...more });
  }

  private receive(content: any, buffers: DataView[]): void {
    if (content.kind === 'layout') {
      this.layout = content as Layout;
      this.history = new History();
      this.draw();
    } else if (content.kind === 'history') {
      this.history.replace(content.steps, this.layout.layers.length, buffers);
      this.draw();
    } else if (content.kind === 'look') {
      this.look(content, buffers);
    } else if (content.kind === 'watch') {
      this.showWatch(content);
    } else if (content.kind === 'failed') {
      this.trouble.show(content.text, content.next_step, content.what);
    }
  }

  private look(content: any, buffers: DataView[]): void {
    if (buffers.length === 8) {
      const [norms, zeros, counts] = buffers.slice(0, 3).map(floats);
      if (content.again !== true) {
        this.history.add(content.step, norms, zeros, counts);
      }
      this.table.update(rowsOf(this.layout.parameters, buffers.slice(3), content.bad_ranks));
    }
    this.trouble.clear();
    const total =
      content.total_norm === null ? '' : text('total norm {norm}', { norm: number(Number(content.total_norm)) });
    const who = this.layout.parameters.length > 0 ? content.who : '';
    say(this.about, [who, content.at, total, content.cost].filter(Boolean).join(' · '));
    fill(this.notes, ...[...content.notes, ...content.silent].map((line: string) => el('p', { text: line })));
    fill(
      this.found,
      content.cards.length > 0 && showCards(content.cards as Card[], { first_nan: () => this.send('arm') })
    );
    this.draw();
  }

  private showWatch(content: any): void {
    const armed = content.state === 'armed' || content.state === 'leaving';
    this.arm.hidden = armed;
    this.disarm.hidden = !armed;
    this.disarm.disabled = content.state === 'leaving';
    const fired = content.state === 'fired';
    const words = fired ? text('First NaN: {words}', { words: content.words }) : content.words;
    say(this.watch, content.words ? `${fired ? '✖ ' : armed ? '◉ ' : ''}${words}` : '');
    this.watch.classList.toggle('tdb-is-critical', fired);
    fill(this.fired, fired && showCards((content.cards ?? []) as Card[], this.acts()));
  }

  private acts(): Record<string, () => void> {
    const open = (view: string) => () =>
      this.root.dispatchEvent(new CustomEvent('traindbg:open', { bubbles: true, detail: { view } }));
    return { checkpoint: open('checkpoint'), learning_rate: open('learning_rate') };
  }

  private draw(): void {
    const columns = this.history.columns[this.metric];
    const chosen = METRICS.find(metric => metric.name === this.metric)!;
    const scale = this.metric === 'zeros' ? { low: 0, high: 1, log: false } : scaleOf(columns, chosen.log);
    const grid = { rows: this.layout.layers, columns, bad: this.history.columns.bad };
    this.heat.show(grid, this.history.steps, scale);
    const n = this.history.steps.length;
    this.heat.node.dataset.looks = String(n);
    this.heat.node.setAttribute(
      'aria-label',
      text('{what} of the gradients of {layers} layers over {n} looks; arrow keys move, the value is said below', {
        what: labelOf(this.metric),
        layers: this.layout.layers.length,
        n
      })
    );
    this.showLegend(scale, labelOf(this.metric));
  }

  private showLegend(scale: Scale | null, label: string): void {
    const bar = el('span', { class: 'tdb-bar', attrs: { 'aria-hidden': 'true' } });
    bar.style.background = `linear-gradient(to right, ${[0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1].map(colour).join(', ')})`;
    const cross = el('span', { class: 'tdb-cross', text: '✕', attrs: { 'aria-hidden': 'true' } });
    cross.style.background = BAD;
    const [low, high] =
      this.metric === 'zeros' ? ['0 %', '100 %'] : scale ? [number(scale.low, 2), number(scale.high, 2)] : ['', ''];
    const ranged = scale !== null && this.metric !== 'bad';
    fill(
      this.legend,
      ranged && el('span', { text: `${scale.log ? text('{what} (log)', { what: label }) : label}  ${low} ` }),
      ranged && bar,
      ranged && el('span', { text: high }),
      el('span', { class: 'tdb-row' }, cross, text('NaN or Inf')),
      this.metric === 'zeros' &&
        el('span', { class: 'tdb-muted', text: text('counting zeros takes five passes over the gradients, not one') })
    );
  }

  private tell(place: Place | null): void {
    if (place === null) {
      this.read.textContent =
        this.history.steps.length > 0
          ? text('Point at a cell, or move with the arrow keys.')
          : text('No gradients yet: they are read at the next step.');
      return;
    }
    const { row, column } = place;
    const at = this.history.steps[column];
    const value = (metric: Metric): number => this.history.columns[metric][column][row];
    const counts = value('bad');
    const words = [
      this.layout.layers[row],
      text('step {step}', { step: at === null ? '–' : whole(at) }),
      text('norm {value}', { value: number(known(value('norms'))) }),
      value('zeros') === NOT_THERE ? '' : text('zeros {share}', { share: percent(value('zeros')) }),
      counts > 0 ? text('{n} elements NaN or Inf', { n: number(counts) }) : text('all finite')
    ];
    this.read.textContent = words.filter(Boolean).join(' · ');
  }
}

export const GRADIENTS: View = {
  name: 'gradients',
  get label() {
    return text('Gradients');
  },
  mount(root: HTMLElement, channel: Channel): Mounted {
    const view = new Gradients(root, channel);
    return { show: () => view.redraw(), hide: () => undefined, dispose: () => view.dispose() };
  }
};
