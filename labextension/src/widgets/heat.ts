// A heat map of rows (layers) and columns (steps) on a canvas: what colour a value has, where a cell lies. Drawn here, told elsewhere.

import { text, whole } from '../common/language';

export interface Grid {
  rows: string[];
  /** By column: one value a row. Negative: there is none; NaN and infinity: not finite, drawn as such. */
  columns: Float32Array[];
  /** By column: how many elements are not finite, one a row. */
  bad: Float32Array[];
}

export interface Scale {
  low: number;
  high: number;
  log: boolean;
}

export interface Place {
  row: number;
  column: number;
}

/** Viridis in a few steps: light or dark, coloured or grey, more is brighter. */
const STOPS = ['#440154', '#472d7b', '#3b528b', '#2c728e', '#21918c', '#28ae80', '#5ec962', '#addc30', '#fde725'].map(
  hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16))
);
export const BAD = '#d81b3c';
const LEAST_COLUMNS = 32;
const MOST_LABEL = 190;
const AXIS = 18;

/** The colour of `share` in [0, 1]. */
export function colour(share: number): string {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const i = Math.min(Math.floor(at), STOPS.length - 2);
  const mixed = STOPS[i].map((from, c) => Math.round(from + (STOPS[i + 1][c] - from) * (at - i)));
  return `rgb(${mixed.join(', ')})`;
}

/** From the smallest to the greatest value that can be drawn; a few outliers do not take all colours. */
export function scaleOf(columns: Float32Array[], log: boolean): Scale | null {
  const known: number[] = [];
  for (const column of columns) {
    for (const value of column) {
      if (Number.isFinite(value) && (log ? value > 0 : value >= 0)) {
        known.push(value);
      }
    }
  }
  if (known.length === 0) {
    return null;
  }
  known.sort((a, b) => a - b);
  const low = known[Math.floor(known.length * 0.01)];
  const high = known[Math.min(known.length - 1, Math.ceil(known.length * 0.99))];
  return { low, high, log };
}

/** Where `value` lies on the scale, from 0 to 1. */
export function share(value: number, scale: Scale): number {
  if (scale.log && value <= 0) {
    return 0;
  }
  const f = scale.log ? Math.log : (x: number) => x;
  const width = f(scale.high) - f(scale.low);
  return width > 0 ? (f(value) - f(scale.low)) / width : 0.5;
}

/** "…encoder.layers.11.linear1": the end of a name tells it from its neighbours. */
export function tail(name: string, longest: number): string {
  return name.length <= longest ? name : `…${name.slice(name.length - longest + 1)}`;
}

/** How the cells lie in a width. */
export function measure(rows: number, columns: number, width: number): { label: number; cell: number; line: number } {
  const label = Math.min(MOST_LABEL, Math.floor(width * 0.3));
  const cell = Math.max(1, (width - label) / Math.max(columns, LEAST_COLUMNS));
  const line = Math.max(4, Math.min(18, Math.floor(300 / Math.max(rows, 1))));
  return { label, cell, line };
}

export class HeatMap {
  readonly node = document.createElement('canvas');
  private grid: Grid = { rows: [], columns: [], bad: [] };
  private steps: (number | null)[] = [];
  private scale: Scale | null = null;
  private marked: Place | null = null;
  private observer: ResizeObserver | null = null;

  constructor(private onMark: (place: Place | null) => void) {
    const node = this.node;
    node.className = 'tdb-heat';
    node.tabIndex = 0;
    node.setAttribute('role', 'application');
    node.setAttribute('aria-roledescription', text('heat map'));
    node.addEventListener('mousemove', event => this.mark(this.at(event.offsetX, event.offsetY)));
    node.addEventListener('mouseleave', () => this.mark(null));
    node.addEventListener('keydown', event => this.onKey(event));
    if (typeof ResizeObserver !== 'undefined') {
      this.observer = new ResizeObserver(() => this.draw());
    }
  }

  connect(): void {
    this.observer?.observe(this.node.parentElement!);
  }

  dispose(): void {
    this.observer?.disconnect();
  }

  show(grid: Grid, steps: (number | null)[], scale: Scale | null): void {
    this.grid = grid;
    this.steps = steps;
    this.scale = scale;
    if (this.marked && (this.marked.row >= grid.rows.length || this.marked.column >= grid.columns.length)) {
      this.marked = null;
    }
    this.draw();
    this.onMark(this.marked);
  }

  private get layout(): { label: number; cell: number; line: number } {
    return measure(this.grid.rows.length, this.grid.columns.length, this.node.parentElement?.clientWidth || 600);
  }

  private at(x: number, y: number): Place | null {
    const { label, cell, line } = this.layout;
    const row = Math.floor(y / line);
    const column = Math.floor((x - label) / cell);
    const there = row >= 0 && row < this.grid.rows.length && column >= 0 && column < this.grid.columns.length;
    return there ? { row, column } : null;
  }

  private onKey(event: KeyboardEvent): void {
    const move: Record<string, [number, number]> = {
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0]
    };
    const [rows, columns] = [this.grid.rows.length, this.grid.columns.length];
    if (rows === 0 || columns === 0 || !(event.key in move || ['Home', 'End', 'Escape'].includes(event.key))) {
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // the notebook has its own ideas about these keys
    if (event.key === 'Escape') {
      this.mark(null);
      return;
    }
    const from = this.marked ?? { row: 0, column: columns - 1 };
    const [down, right] = this.marked ? (move[event.key] ?? [0, 0]) : [0, 0];
    const column = event.key === 'Home' ? 0 : event.key === 'End' ? columns - 1 : from.column + right;
    this.mark({
      row: Math.min(Math.max(from.row + down, 0), rows - 1),
      column: Math.min(Math.max(column, 0), columns - 1)
    });
  }

  private mark(place: Place | null): void {
    if (place?.row !== this.marked?.row || place?.column !== this.marked?.column) {
      this.marked = place;
      this.draw();
      this.onMark(place);
    }
  }

  private draw(): void {
    const pen = this.node.getContext('2d');
    const parent = this.node.parentElement;
    if (!pen || !parent) {
      return;
    }
    const { label, cell, line } = this.layout;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [parent.clientWidth || 600, Math.max(1, this.grid.rows.length) * line + AXIS];
    if (this.node.width !== Math.round(width * ratio) || this.node.height !== Math.round(height * ratio)) {
      this.node.width = Math.round(width * ratio);
      this.node.height = Math.round(height * ratio);
      this.node.style.width = `${width}px`;
      this.node.style.height = `${height}px`;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.node);
    this.cells(pen, label, cell, line);
    this.labels(pen, style, label, line);
    this.axis(pen, style, label, cell, height);
    if (this.marked) {
      const { row, column } = this.marked;
      pen.strokeStyle = style.color;
      pen.lineWidth = 2;
      pen.strokeRect(label + column * cell - 1, row * line - 1, cell + 2, line + 1);
    }
  }

  private cells(pen: CanvasRenderingContext2D, label: number, cell: number, line: number): void {
    const [wide, high] = [Math.max(cell - (cell > 4 ? 1 : 0), 0.8), Math.max(line - 1, 3)];
    this.grid.columns.forEach((values, c) => {
      values.forEach((value, r) => {
        const [x, y] = [label + c * cell, r * line];
        if (this.grid.bad[c][r] > 0 || !Number.isFinite(value)) {
          bad(pen, x, y, wide, high);
        } else if (value >= 0 && this.scale) {
          pen.fillStyle = colour(share(value, this.scale));
          pen.fillRect(x, y, wide, high);
        }
      });
    });
  }

  private labels(pen: CanvasRenderingContext2D, style: CSSStyleDeclaration, label: number, line: number): void {
    pen.fillStyle = style.color;
    pen.font = `11px ${style.fontFamily}`;
    pen.textAlign = 'right';
    pen.textBaseline = 'middle';
    const every = Math.max(1, Math.ceil(12 / line));
    const longest = Math.floor((label - 10) / 6);
    this.grid.rows.forEach((name, r) => {
      if (r % every === 0) {
        pen.fillText(tail(name, longest), label - 6, r * line + line / 2, label - 8);
      }
    });
  }

  private axis(
    pen: CanvasRenderingContext2D,
    style: CSSStyleDeclaration,
    label: number,
    cell: number,
    height: number
  ): void {
    const n = this.steps.length;
    pen.fillStyle = style.color;
    pen.globalAlpha = 0.75;
    const put = (column: number, align: CanvasTextAlign, x: number): void => {
      const step = this.steps[column];
      pen.textAlign = align;
      pen.fillText(step === null ? '–' : whole(step), x, height - AXIS / 2);
    };
    pen.textAlign = 'right';
    pen.fillText(text('step'), label - 6, height - AXIS / 2);
    if (n > 0) {
      put(0, 'left', label);
    }
    if (n * cell > 120) {
      put(n - 1, 'right', label + n * cell);
    }
    pen.globalAlpha = 1;
  }
}

/** Red and crossed out: the colour is not the only sign. */
function bad(pen: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  pen.fillStyle = BAD;
  pen.fillRect(x, y, width, height);
  if (width >= 4 && height >= 4) {
    pen.strokeStyle = '#ffffff';
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x + 1, y + 1);
    pen.lineTo(x + width - 1, y + height - 1);
    pen.moveTo(x + width - 1, y + 1);
    pen.lineTo(x + 1, y + height - 1);
    pen.stroke();
  }
}
