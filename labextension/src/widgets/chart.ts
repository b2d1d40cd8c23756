// One chart: a group of series over one x axis, with marks for events, a line of values below, and keys for whoever has no mouse.

import uPlot from 'uplot';

import { pgettext, text } from '../common/language';
import { Curve, stacked } from './curvesData';
import { drawMarks, EventMark } from './marks';
import { blend, DASHES, Palette } from './palette';
import { format, formatX, stepTicks, tick } from './words';

export interface Shown {
  x: 'step' | 'time';
  /** By how many steps the optimizer's own count is ahead of all steps here; null: these are what is shown. */
  ahead: number | null;
  log: boolean;
  min: number;
  max: number;
  events: EventMark[];
  rankName(rank: number): string;
}

interface Line {
  label: string;
  colour: number;
  dash: number[];
  /** What is told; what is drawn may be a sum. */
  values: (number | null)[];
  width: number;
  x: number[];
}

interface Drawing {
  data: uPlot.AlignedData;
  lines: Line[];
  series: uPlot.Series[];
  bands: uPlot.Band[];
}

const HEIGHT = 168;
const WIDTH = 1.5;

export interface ChartHooks {
  zoom(first: number, last: number): void;
  scroll(factor: number, about: number): void;
  pan(share: number): void;
  say(words: string): void;
  whole(): void;
}

export class Chart {
  readonly node = document.createElement('figure');
  private title = document.createElement('figcaption');
  private place = document.createElement('div');
  private legend = document.createElement('ul');
  private values: HTMLElement[] = [];
  private plot: uPlot | null = null;
  private drawing: Drawing | null = null;
  private shape = '';
  private marks: number[] = [];
  private shown: Shown | null = null;
  private unit = '';
  private width = 0;
  private cursor: number | null = null;
  /** Set while the mouse is held down on the chart: what came meanwhile, to be shown once it is let go. */
  private held: { latest: (() => void) | null } | null = null;

  constructor(
    readonly group: string,
    readonly label: string,
    private sync: string,
    private colours: () => Palette,
    private hooks: ChartHooks
  ) {
    this.node.className = 'tdb-chart';
    this.node.dataset.group = group;
    this.title.textContent = label;
    this.place.className = 'tdb-plot';
    this.place.tabIndex = 0;
    this.place.setAttribute('role', 'img');
    this.place.addEventListener('keydown', event => this.onKey(event));
    this.place.addEventListener('wheel', event => this.onWheel(event), { passive: false });
    this.place.addEventListener('mousedown', event => event.button === 0 && this.hold());
    this.legend.className = 'tdb-legend';
    this.node.append(this.title, this.place, this.legend);
  }

  show(curves: Curve[], shown: Shown): void {
    if (this.held !== null) {
      this.held.latest = () => this.show(curves, shown);
      return;
    }
    this.shown = shown;
    this.unit = curves[0]?.unit ?? '';
    this.marks = [...new Set(curves.flatMap(curve => curve.marks))].sort((a, b) => a - b);
    const drawing = this.draw(curves, shown);
    const shape = JSON.stringify([
      shown.x,
      shown.ahead,
      shown.log,
      drawing.lines.map(l => [l.label, l.colour, l.dash, sparse(l.values)]),
      this.unit
    ]);
    this.drawing = drawing;
    if (this.plot === null || shape !== this.shape) {
      this.shape = shape;
      this.make(drawing, shown);
    } else {
      this.plot.setData(drawing.data, false);
      this.plot.setScale('x', { min: shown.min, max: shown.max });
    }
    this.node.dataset.points = String(drawing.data[0].length);
    this.node.dataset.perPoint = String(Math.max(1, ...curves.map(curve => curve.per_point)));
    this.tell();
    this.describe();
  }

  resize(width: number): void {
    if (width > 0 && width !== this.width) {
      this.width = width;
      this.plot?.setSize({ width, height: HEIGHT });
    }
  }

  redraw(): void {
    this.plot?.redraw(false, true);
    this.paintLegend();
  }

  dispose(): void {
    if (this.held !== null) {
      this.held.latest = null;
    }
    this.plot?.destroy();
    this.node.remove();
  }

  private draw(curves: Curve[], shown: Shown): Drawing {
    const parts = curves.filter(curve => curve.name !== 'step_s');
    if (this.group === 'time' && parts.length > 0) {
      return this.drawStack(parts);
    }
    const lines: Line[] = [];
    const bands: uPlot.Band[] = [];
    curves.forEach((curve, i) => {
      const added = this.linesOf(curve, i, curves, shown);
      if (curve.ranks === null && added.length === 3) {
        bands.push({ series: [lines.length + 1, lines.length + 3], fill: () => this.faint(i) });
      }
      lines.push(...added);
    });
    const aligned = curves.every(curve => curve.x.length === curves[0].x.length && curve.x[0] === curves[0].x[0]);
    const drawn = lines.map(line => this.drawable(line.values));
    const data = aligned
      ? ([curves[0]?.x ?? [], ...drawn] as uPlot.AlignedData)
      : uPlot.join(lines.map((line, i) => [line.x, drawn[i]] as uPlot.AlignedData));
    if (!aligned) {
      lines.forEach((line, i) => (line.values = data[i + 1] as (number | null)[]));
    }
    const series = lines.map(line => this.line(line));
    return { data, lines, series, bands };
  }

  /** The lines of the `i`-th of `curves`: one per rank, or greatest, median and least; one alone where the ranks do not differ. */
  private linesOf(curve: Curve, i: number, curves: Curve[], shown: Shown): Line[] {
    const { columns, ranks, x } = curve;
    const own = nameOf(curve);
    const dash = DASHES[i % DASHES.length];
    if (this.group === 'lr' && columns.length > 1 && columns.every(column => alike(column, columns[0]))) {
      const values = columns[ranks === null ? 1 : 0];
      return [{ label: text('{series}, all ranks', { series: own }), colour: i, dash, values, width: WIDTH, x }];
    }
    if (ranks === null) {
      return [text('max'), text('median'), text('min')].map((which, k) => {
        const label = curves.length > 1 ? text('{series}, {which}', { series: own, which }) : which;
        const look = k === 1 ? { dash: [], width: WIDTH } : { dash: [2, 2], width: 0.6 };
        return { label, colour: i, values: columns[2 - k], x, ...look };
      });
    }
    const several = new Set(curves.flatMap(other => other.ranks ?? [])).size > 1;
    return ranks.map((rank, k) => {
      const name = shown.rankName(rank);
      const label = !several ? own : curves.length > 1 ? text('{rank}, {series}', { rank: name, series: own }) : name;
      const look = { colour: several ? rank : i, dash: several || i > 0 ? dash : [], width: WIDTH };
      return { label, values: columns[k], x, ...look };
    });
  }

  private drawStack(parts: Curve[]): Drawing {
    const { x, own, sums } = stacked(parts);
    const lines = parts
      .map((part, i) => ({ label: part.label, colour: i, dash: [], values: own[i], width: 1, x }))
      .reverse();
    const series = lines.map(line => ({ ...this.line(line), fill: () => this.layer(line.colour) }));
    return { data: [x, ...[...sums].reverse()] as uPlot.AlignedData, lines, series, bands: [] };
  }

  /** On a log axis there is no place for what is not positive. */
  private drawable(values: (number | null)[]): (number | null)[] {
    return this.logarithmic ? values.map(value => (value !== null && value > 0 ? value : null)) : values;
  }

  private get logarithmic(): boolean {
    return (this.shown?.log ?? false) && ['loss', 'lr', 'grad_norm'].includes(this.group);
  }

  private line(line: Line): uPlot.Series {
    return {
      label: line.label,
      stroke: () => this.colour(line.colour),
      width: line.width,
      dash: line.dash,
      points: { show: sparse(line.values), size: 5, fill: () => this.colour(line.colour), width: 0 },
      spanGaps: ['grad_norm', 'gpu'].includes(this.group) // sampled: a gap is no news
    };
  }

  private colour(i: number): string {
    const { lines } = this.colours();
    return lines[i % lines.length];
  }

  private faint(i: number): string {
    return `${this.colour(i)}38`;
  }

  /** Opaque: the layers of a stack lie on top of each other. */
  private layer(i: number): string {
    return blend(this.colour(i), this.colours().background, 0.75);
  }

  private make(drawing: Drawing, shown: Shown): void {
    this.plot?.destroy();
    const axis = {
      stroke: () => this.colours().text,
      grid: { stroke: () => this.colours().grid, width: 1 },
      ticks: { show: false }
    };
    const font = '11px system-ui, sans-serif';
    const options: uPlot.Options = {
      width: this.width || 360,
      height: HEIGHT,
      legend: { show: false },
      padding: [12, () => this.besideTicks(), 0, 0],
      series: [{}, ...drawing.series],
      bands: drawing.bands,
      scales: {
        x: { time: shown.x === 'time', range: () => [this.shown?.min ?? 0, this.shown?.max ?? 1] },
        y: this.logarithmic ? { distr: 3 } : { range: (_u, low, high) => this.range(low, high) }
      },
      axes: [
        { ...axis, font, size: 26, space: 70, ...(shown.x === 'step' ? this.stepAxis() : {}) },
        {
          ...axis,
          font,
          size: 62,
          space: 30,
          values: (_u, ticks) => ticks.map(v => (v === null ? '' : format(this.unit, v)))
        }
      ],
      cursor: {
        sync: { key: this.sync, scales: ['x', null] },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        points: { size: 6 }
      },
      hooks: {
        setSelect: [plot => this.onSelect(plot)],
        setCursor: [plot => this.onCursor(plot)],
        draw: [plot => drawMarks(plot, this.colours(), this.shown?.x ?? 'step', this.shown?.events ?? [], this.marks)]
      }
    };
    this.plot = new uPlot(options, drawing.data, this.place);
    this.plot.over.addEventListener('dblclick', () => this.hooks.whole());
    this.makeLegend(drawing);
  }

  private stepAxis(): Pick<uPlot.Axis, 'splits' | 'values'> {
    const ahead = () => this.shown?.ahead ?? null;
    return {
      splits: (_u, _axis, min, max, apart) => stepTicks(min, max, apart, ahead()),
      values: (_u, ticks) => ticks.map(value => tick(value + (ahead() ?? 0)))
    };
  }

  /** Half of the last number below may stand out at the right; a digit takes 6 px. */
  private besideTicks(): number {
    const last = this.shown?.x === 'step' ? tick(Math.round(this.shown.max) + (this.shown.ahead ?? 0)) : '';
    return Math.max(10, last.length * 3.2);
  }

  private range(low: number, high: number): uPlot.Range.MinMax {
    if (low === null || high === null) {
      return [0, 1];
    }
    if (this.group === 'gpu') {
      return [0, 100];
    }
    if (this.group === 'time') {
      return [0, high > 0 ? high * 1.05 : 1];
    }
    const spread = Math.max(high - low, Math.max(Math.abs(low), Math.abs(high)) * 0.02, 1e-12); // noise is to look flat
    const middle = (low + high) / 2;
    return [middle - spread * 0.55, middle + spread * 0.55];
  }

  private makeLegend(drawing: Drawing): void {
    this.values = [];
    const items = drawing.lines.map(line => {
      const item = document.createElement('li');
      const swatch = document.createElement('span');
      swatch.className = 'tdb-swatch';
      swatch.setAttribute('aria-hidden', 'true');
      const name = document.createElement('span');
      name.className = 'tdb-name';
      name.textContent = name.title = line.label;
      const value = document.createElement('span');
      value.className = 'tdb-value';
      item.append(swatch, name, value);
      this.values.push(value);
      return item;
    });
    if (this.group === 'time') {
      items.reverse();
    }
    this.legend.replaceChildren(...items);
    this.paintLegend();
  }

  private paintLegend(): void {
    this.drawing?.lines.forEach((line, i) => {
      const swatch = this.values[i]?.parentElement?.firstElementChild as HTMLElement | null;
      if (swatch) {
        swatch.style.borderTopColor = this.colour(line.colour);
        swatch.style.borderTopStyle = line.dash.length === 0 ? 'solid' : line.dash[0] > 2 ? 'dashed' : 'dotted';
      }
    });
  }

  /** The values under the cursor, or the latest ones. */
  private tell(): void {
    const { drawing } = this;
    if (drawing === null) {
      return;
    }
    drawing.lines.forEach((line, i) => {
      const at =
        this.cursor === null || this.cursor >= line.values.length
          ? lastKnown(line.values)
          : near(line.values, this.cursor);
      this.values[i].textContent = format(this.unit, at);
    });
  }

  private describe(): void {
    const { drawing, shown } = this;
    if (drawing === null || shown === null) {
      return;
    }
    const x = drawing.data[0] as number[];
    const parts = drawing.lines.slice(0, 8).map((line, i) => `${line.label} ${this.values[i].textContent}`);
    const where = x.length > 0 ? formatX(shown.x, x[x.length - 1], shown.ahead) : '';
    const what = where ? text('{label} at {where}', { label: this.label, where }) : this.label;
    const words = [
      text('{what}: {words}', { what, words: parts.join(pgettext('list', ', ')) }),
      this.marks.length > 0 ? text('not finite at {n} points', { n: this.marks.length }) : ''
    ];
    this.place.setAttribute(
      'aria-label',
      text('{words}. Arrow keys read values, plus and minus zoom, 0 shows all.', {
        words: words.filter(Boolean).join(text('; '))
      })
    );
  }

  private onCursor(plot: uPlot): void {
    const at = plot.cursor.idx ?? null;
    this.cursor = plot.cursor.left !== undefined && plot.cursor.left >= 0 ? at : null;
    this.tell();
    this.title.textContent =
      this.cursor === null || this.shown === null
        ? this.label
        : `${this.label} · ${formatX(this.shown.x, plot.data[0][this.cursor], this.shown.ahead)}`;
  }

  /** Nothing moves under whoever drags: a plot that is made anew would forget where the drag began, and new steps shift what is marked. */
  private hold(): void {
    const held: { latest: (() => void) | null } = { latest: null };
    this.held = held;
    const release = (event: MouseEvent) => {
      if (event.type === 'mouseup' || event.buttons === 0) {
        document.removeEventListener('mouseup', release);
        document.removeEventListener('mousemove', release); // where the mouse was let go unseen
        this.held = null;
        held.latest?.();
      }
    };
    document.addEventListener('mouseup', release);
    document.addEventListener('mousemove', release);
  }

  private onSelect(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width > 4 && this.held !== null) {
      // the others mark what is dragged over here: one zoom for all
      this.hooks.zoom(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
    }
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private onWheel(event: WheelEvent): void {
    if (this.plot === null || !(event.ctrlKey || event.metaKey)) {
      return; // the wheel alone scrolls the notebook
    }
    event.preventDefault();
    const left = event.clientX - this.plot.over.getBoundingClientRect().left;
    this.hooks.scroll(event.deltaY > 0 ? 1.25 : 0.8, this.plot.posToVal(left, 'x'));
  }

  private onKey(event: KeyboardEvent): void {
    const acts: Record<string, () => void> = {
      ArrowLeft: () => (event.shiftKey ? this.hooks.pan(-0.25) : this.step(-1)),
      ArrowRight: () => (event.shiftKey ? this.hooks.pan(0.25) : this.step(1)),
      '+': () => this.hooks.scroll(0.5, this.middle()),
      '=': () => this.hooks.scroll(0.5, this.middle()),
      '-': () => this.hooks.scroll(2, this.middle()),
      '0': () => this.hooks.whole()
    };
    const act = acts[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      event.stopPropagation(); // the notebook has its own ideas about these keys
      act();
    }
  }

  private middle(): number {
    const x = (this.drawing?.data[0] ?? []) as number[];
    return this.cursor !== null && x.length > this.cursor
      ? x[this.cursor]
      : ((this.shown?.min ?? 0) + (this.shown?.max ?? 1)) / 2;
  }

  /** Move the cursor by so many points, and say what is there. */
  private step(by: number): void {
    const { plot, drawing, shown } = this;
    const x = (drawing?.data[0] ?? []) as number[];
    if (plot === null || drawing === null || shown === null || x.length === 0) {
      return;
    }
    const at = Math.min(x.length - 1, Math.max(0, (this.cursor ?? x.length) + by));
    plot.setCursor({ left: plot.valToPos(x[at], 'x'), top: 10 });
    const values = drawing.lines.map(line => `${line.label} ${format(this.unit, line.values[at])}`);
    this.hooks.say(
      text('{what}: {words}', {
        what: formatX(shown.x, x[at], shown.ahead),
        words: values.join(pgettext('list', ', '))
      })
    );
  }
}

/** What it is called below its chart, whose title says what these rates are. */
function nameOf(curve: Curve): string {
  const rates: Record<string, string> = { lr: pgettext('a rate', 'scheduled'), lr_effective: text('effective') };
  return rates[curve.name] ?? curve.label;
}

/** Whether two lines are one on the chart: ranks that follow the same schedule. */
function alike(a: (number | null)[], b: (number | null)[]): boolean {
  const near = (x: number | null, y: number | null) =>
    x === y || Math.abs((x ?? NaN) - (y ?? NaN)) <= 0.01 * Math.abs(y ?? 0);
  return a.length === b.length && a.every((value, i) => near(value, b[i]));
}

/** A few values among many gaps: dots show where they are. */
function sparse(values: (number | null)[]): boolean {
  const known = values.filter(value => value !== null && value !== undefined).length;
  return known > 0 && known < 120 && known < values.length * 0.9;
}

function lastKnown(values: (number | null)[]): number | null {
  for (let i = values.length - 1; i >= 0; i--) {
    const value = values[i];
    if (value !== null && value !== undefined) {
      return value;
    }
  }
  return null;
}

/** What is at a point, or was last before it: the gradient norm is sampled. */
function near(values: (number | null)[], at: number): number | null {
  for (let i = at; i >= Math.max(0, at - 40); i--) {
    if (values[i] !== null && values[i] !== undefined) {
      return values[i];
    }
  }
  return null;
}
