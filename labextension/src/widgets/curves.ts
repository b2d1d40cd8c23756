// The view of curves: a chart per group of series, one x axis for all, the ranks that are drawn, and the events as marks and as a list.

import 'uplot/dist/uPlot.min.css';

import { pgettext, text } from '../common/language';
import { Chart, Shown } from './chart';
import * as kept from './kept';
import { Curve, Curves, decode, Message } from './curvesData';
import { EVENT_SIGNS, EventMark } from './marks';
import { onThemeChange, palette, Palette } from './palette';
import { ALL, panned, parseRanks, Range, zoomed } from './range';
import { Channel, Mounted, View } from './view';
import { formatX, stepWords } from './words';

const GROUPS = (): Record<string, string> => ({
  loss: text('Loss'),
  lr: text('Learning rate'),
  grad_norm: text('Gradient norm'),
  time: text('Step time'),
  memory: text('Memory'),
  gpu: text('GPU utilisation')
});
const MOST_POINTS = 1200;
const MOST_EVENTS = 300;

export const CURVES: View = {
  name: 'curves',
  get label() {
    return text('Curves');
  },
  mount: (root, channel) => new CurvesView(root, channel)
};

interface About {
  ranks: [number, string][];
  silent: [number, string][];
  few: number;
  /** By how many steps the optimizer's own count is ahead of that since the attach, in which all else is told; null: that one is shown. */
  ahead: number | null;
}

interface Left {
  x: string;
  log: boolean;
  ranks: number[] | null;
  first: number | null;
  last: number | null;
}

class CurvesView implements Mounted {
  private curves = new Curves();
  private events: EventMark[] = [];
  private charts = new Map<string, Chart>();
  private grid = document.createElement('div');
  private empty = document.createElement('p');
  private list = document.createElement('ol');
  private details = document.createElement('details');
  private summary = document.createElement('summary');
  private aloud = document.createElement('div');
  private xAxis = document.createElement('select');
  private stepOption = new Option(text('step'), 'step');
  private logScale = document.createElement('input');
  private ranksField = document.createElement('input');
  private ranksNote = document.createElement('span');
  private silentNote = document.createElement('p');
  private memorySelect = document.createElement('select');
  private memoryLabel = document.createElement('label');
  private about: About = { ranks: [], silent: [], few: 8, ahead: null };
  private names = new Map<number, string>();
  private x: 'step' | 'time' = 'step';
  private log = false;
  private ranks: number[] | null = null;
  private range: Range = ALL;
  private extent: [number, number] = [0, 1];
  private seq = 0;
  private metric = '';
  private visible = false;
  private colours: Palette;
  private ends: (() => void)[] = [];
  private frame = 0;

  constructor(
    private root: HTMLElement,
    private channel: Channel
  ) {
    this.colours = palette(root);
    this.build();
    this.recall();
    this.ends.push(channel.onMessage((content, buffers) => this.onMessage(content, buffers)));
    this.ends.push(
      onThemeChange(() => {
        this.colours = palette(this.root);
        this.charts.forEach(chart => chart.redraw());
      })
    );
    if (typeof ResizeObserver !== 'undefined') {
      const observer = new ResizeObserver(() => this.fit());
      observer.observe(this.grid);
      this.ends.push(() => observer.disconnect());
    }
  }

  show(): void {
    this.visible = true;
    this.colours = palette(this.root);
    this.want();
  }

  hide(): void {
    this.visible = false;
  }

  dispose(): void {
    this.ends.forEach(end => end());
    cancelAnimationFrame(this.frame);
    this.charts.forEach(chart => chart.dispose());
    this.root.replaceChildren();
  }

  // --- what is asked for -----------------------------------------------------------------------------------------

  /** As it was left, where the widget is drawn anew: after a reload, or when its output was replaced. */
  private recall(): void {
    const left = kept.get(this.widget, 'curves') as Partial<Left> | undefined;
    if (left !== undefined) {
      this.x = left.x === 'time' ? 'time' : 'step';
      this.log = left.log === true;
      this.ranks = left.ranks ?? null;
      this.range = { first: left.first ?? null, last: left.last ?? null };
      this.xAxis.value = this.x;
      this.logScale.checked = this.log;
      this.ranksField.value = this.ranks?.join(', ') ?? '';
    }
  }

  private keep(): void {
    const { first, last } = this.range;
    kept.put(this.widget, 'curves', { x: this.x, log: this.log, ranks: this.ranks, first, last });
  }

  private get widget(): string {
    return this.root.closest<HTMLElement>('.tdb-watch')?.dataset.widget ?? '';
  }

  private want(): void {
    this.keep();
    if (this.visible) {
      this.seq += 1;
      const { first, last } = this.range;
      const points = Math.min(MOST_POINTS, Math.max(200, Math.round(this.chartWidth() * 1.5)));
      this.channel.send({ kind: 'want', seq: this.seq, ranks: this.ranks, x: this.x, first, last, points });
    }
  }

  private look(range: Range): void {
    this.range = range;
    this.drawSoon(); // what is there, at once; the finer curve comes
    this.want();
  }

  private onMessage(content: any, buffers: DataView[]): void {
    if (content.kind === 'about') {
      this.onAbout(content as About);
    } else if (content.kind === 'events') {
      this.addEvents(content.events as EventMark[]);
    } else if (content.kind === 'whole' && (content.seq === this.seq || content.seq === 0)) {
      this.curves.whole(decode(content as Message, buffers));
      this.events = content.events as EventMark[];
      this.listEvents();
    } else if (content.kind === 'tail' && content.seq === this.seq) {
      if (!this.curves.tail(decode(content as Message, buffers))) {
        this.want();
        return;
      }
    } else {
      return; // an answer to what is not asked any more
    }
    this.drawSoon();
  }

  private onAbout(about: About): void {
    this.about = about;
    this.stepOption.text = about.ahead === null ? text('step since the attach') : text('step');
    this.listEvents();
    this.names = new Map(about.ranks);
    this.ranksField.placeholder = about.ranks.length > about.few ? text('all: band') : pgettext('groups', 'all');
    const few = about.silent
      .slice(0, 4)
      .map(([rank, why]) => text('{what}: {words}', { what: this.rankName(rank), words: why }));
    const who = few.join(text('; '));
    const more = about.silent.length - few.length;
    const silent =
      more > 0 ? text('No answer from {who}; and {n} more', { who, n: more }) : text('No answer from {who}', { who });
    this.silentNote.textContent = few.length > 0 ? silent : '';
    this.silentNote.hidden = few.length === 0;
    this.ranksNote.textContent = text('of {n}', { n: about.ranks.length });
  }

  private rankName(rank: number): string {
    return this.names.get(rank) ?? text('rank {rank}', { rank });
  }

  // --- what is drawn ---------------------------------------------------------------------------------------------

  private drawSoon(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }
  }

  private draw(): void {
    const extent = this.curves.extent;
    this.empty.hidden = extent !== null;
    if (extent === null) {
      return;
    }
    if (this.range.first === null) {
      this.extent = extent;
    }
    const [min, max] = [this.range.first ?? extent[0], this.range.last ?? extent[1]];
    const rankName = (rank: number) => this.rankName(rank);
    const shown: Shown = {
      x: this.x,
      ahead: this.about.ahead,
      log: this.log,
      min,
      max: max > min ? max : min + 1,
      events: this.events,
      rankName
    };
    this.grid.dataset.range = this.range.first === null ? 'all' : `${min}..${max}`;
    this.offerMemory();
    const groups = Object.keys(GROUPS()).filter(group => this.curves.groups.includes(group));
    for (const group of groups) {
      const curves = this.chosen(group);
      this.chart(group).show(curves, shown);
    }
    for (const [group, chart] of this.charts) {
      if (!groups.includes(group)) {
        chart.dispose();
        this.charts.delete(group);
      }
    }
    this.fit();
  }

  /** The series of a chart. Of several ranks' memory one figure at a time: all of them would be a thicket. */
  private chosen(group: string): Curve[] {
    const curves = this.curves.ofGroup(group);
    return group === 'memory' && severalRanks(curves) ? curves.filter(curve => curve.name === this.metric) : curves;
  }

  private offerMemory(): void {
    const curves = this.curves.ofGroup('memory');
    this.memoryLabel.hidden = !severalRanks(curves) || curves.length < 2;
    const names = curves.map(curve => curve.name);
    if (!names.includes(this.metric)) {
      this.metric = names.find(name => name === 'cuda_allocated_bytes') ?? names[0] ?? '';
    }
    if (String([...this.memorySelect.options].map(option => option.value)) !== String(names)) {
      this.memorySelect.replaceChildren(...curves.map(curve => new Option(curve.label, curve.name)));
    }
    this.memorySelect.value = this.metric;
  }

  private chart(group: string): Chart {
    let chart = this.charts.get(group);
    if (!chart) {
      chart = new Chart(group, GROUPS()[group], this.root.id, () => this.colours, {
        zoom: (first, last) => this.look({ first, last }),
        scroll: (factor, about) => this.look(zoomed(this.range, this.extent, factor, about)),
        pan: share => this.look(panned(this.range, this.extent, share)),
        whole: () => this.look(ALL),
        say: words => (this.aloud.textContent = words)
      });
      this.charts.set(group, chart);
      const order = Object.keys(GROUPS());
      const next = [...this.charts.keys()]
        .filter(g => order.indexOf(g) > order.indexOf(group))
        .sort((a, b) => order.indexOf(a) - order.indexOf(b))[0];
      this.grid.insertBefore(chart.node, next ? (this.charts.get(next) as Chart).node : this.details);
    }
    return chart;
  }

  private chartWidth(): number {
    const first = this.charts.values().next().value as Chart | undefined;
    return first?.node.clientWidth || this.grid.clientWidth / 2 || 400;
  }

  private fit(): void {
    this.charts.forEach(chart => chart.resize(chart.node.clientWidth - 2));
  }

  // --- events ----------------------------------------------------------------------------------------------------

  private addEvents(events: EventMark[]): void {
    this.events = [...this.events, ...events].slice(-MOST_EVENTS);
    this.listEvents();
  }

  private listEvents(): void {
    const n = this.events.length;
    this.summary.textContent =
      this.about.ahead === null ? text('Events ({n}), steps since the attach', { n }) : text('Events ({n})', { n });
    this.details.hidden = this.events.length === 0;
    const items = [...this.events].reverse().map(event => {
      const item = document.createElement('li');
      const go = document.createElement('button');
      go.type = 'button';
      go.className = 'tdb-event';
      go.dataset.kind = event.kind;
      go.textContent = `${EVENT_SIGNS[event.kind] ?? '•'} ${text('{what}: {words}', {
        what: stepWords(event.step, this.about.ahead),
        words: event.text
      })}`;
      go.title = text('Show the steps around it');
      go.addEventListener('click', () => this.lookAround(event));
      item.append(go);
      return item;
    });
    this.list.replaceChildren(...items);
  }

  private lookAround(event: EventMark): void {
    const at = this.x === 'time' ? event.time_s : event.step;
    const width = Math.max((this.extent[1] - this.extent[0]) / 20, 10);
    this.look({
      first: Math.max(this.extent[0], at - width),
      last: Math.min(Math.max(this.extent[1], at), at + width)
    });
    this.aloud.textContent = text('{what}: {words}', {
      what: formatX(this.x, at, this.about.ahead),
      words: event.text
    });
  }

  // --- controls --------------------------------------------------------------------------------------------------

  private build(): void {
    const bar = document.createElement('div');
    bar.className = 'tdb-curves-bar';
    bar.setAttribute('role', 'toolbar');
    bar.setAttribute('aria-label', text('Curves'));
    bar.append(
      this.xSelect(),
      this.logBox(),
      this.ranksBox(),
      this.memoryBox(),
      this.act('−', text('Zoom out'), () => this.look(zoomed(this.range, this.extent, 2))),
      this.act('+', text('Zoom in'), () => this.look(zoomed(this.range, this.extent, 0.5))),
      this.act('◀', text('Earlier'), () => this.look(panned(this.range, this.extent, -0.5))),
      this.act('▶', text('Later'), () => this.look(panned(this.range, this.extent, 0.5))),
      this.act(text('All'), text('Show all steps, and follow'), () => this.look(ALL))
    );
    this.grid.className = 'tdb-grid';
    this.empty.className = 'tdb-empty';
    this.empty.textContent = text('Waiting for the first step…');
    this.silentNote.className = 'tdb-note';
    this.silentNote.hidden = true;
    this.aloud.className = 'tdb-aloud';
    this.aloud.setAttribute('aria-live', 'polite');
    this.details.className = 'tdb-events';
    this.details.open = true;
    this.list.setAttribute('aria-label', text('Events, newest first'));
    this.details.append(this.summary, this.list);
    this.grid.append(this.details); // after the charts, where there is often room
    this.listEvents();
    this.root.append(bar, this.silentNote, this.empty, this.grid, this.aloud);
  }

  private xSelect(): HTMLElement {
    const select = this.xAxis;
    select.className = 'tdb-x';
    select.append(this.stepOption, new Option(text('time'), 'time'));
    select.addEventListener('change', () => {
      this.x = select.value === 'time' ? 'time' : 'step';
      this.curves.whole([]);
      this.look(ALL);
    });
    return labelled(text('x axis'), select);
  }

  private logBox(): HTMLElement {
    const box = this.logScale;
    box.type = 'checkbox';
    box.className = 'tdb-log';
    box.addEventListener('change', () => {
      this.log = box.checked;
      this.keep();
      this.drawSoon();
    });
    const label = labelled(text('log scale'), box);
    label.append(...[...label.childNodes].reverse()); // the box before its words
    return label;
  }

  private ranksBox(): HTMLElement {
    this.ranksField.type = 'text';
    this.ranksField.className = 'tdb-ranks';
    this.ranksField.size = 8;
    this.ranksField.placeholder = pgettext('groups', 'all');
    this.ranksField.title = text('Which ranks to draw one by one, for example 0-3, 7');
    this.ranksNote.className = 'tdb-muted';
    this.ranksNote.setAttribute('role', 'status');
    this.ranksField.addEventListener('change', () => this.chooseRanks());
    this.ranksField.addEventListener('keydown', event => event.stopPropagation());
    const label = labelled(text('ranks'), this.ranksField);
    label.append(this.ranksNote);
    return label;
  }

  private chooseRanks(): void {
    const known = this.about.ranks.map(([rank]) => rank);
    const chosen = parseRanks(this.ranksField.value, known, this.about.few);
    const wrong = typeof chosen === 'string';
    this.ranksField.setAttribute('aria-invalid', String(wrong));
    this.ranksNote.textContent = wrong ? chosen : text('of {n}', { n: known.length });
    if (!wrong) {
      this.ranks = chosen;
      this.want();
    }
  }

  private memoryBox(): HTMLElement {
    this.memorySelect.className = 'tdb-memory';
    this.memorySelect.addEventListener('change', () => {
      this.metric = this.memorySelect.value;
      this.drawSoon();
    });
    this.memoryLabel.className = 'tdb-field';
    this.memoryLabel.append(`${text('memory')} `, this.memorySelect);
    this.memoryLabel.hidden = true;
    return this.memoryLabel;
  }

  private act(sign: string, name: string, run: () => void): HTMLElement {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = 'tdb-button tdb-icon';
    made.textContent = sign;
    made.title = name;
    made.setAttribute('aria-label', name);
    made.addEventListener('click', run);
    return made;
  }
}

function severalRanks(curves: Curve[]): boolean {
  return curves.some(curve => curve.ranks === null || curve.ranks.length > 1);
}

function labelled(words: string, control: HTMLElement): HTMLLabelElement {
  const label = document.createElement('label');
  label.className = 'tdb-field';
  label.append(`${words} `, control);
  return label;
}
