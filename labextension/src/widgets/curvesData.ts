// Curves as they come over the wire, and what is kept of them: whole once, then tails that are appended.

export interface SeriesHead {
  name: string;
  n: number;
  /** One line each; null: a band of least, median and greatest. */
  ranks: number[] | null;
  marks: number;
  per_point: number;
  complete: boolean;
}

export interface Label {
  label: string;
  unit: string;
  group: string;
}

export interface Message {
  kind: string;
  seq: number;
  x: 'step' | 'time';
  series: SeriesHead[];
  labels?: Record<string, Label>;
}

type Values = (number | null)[];

/** One series: as many values in each column as in `x`; null where there is none. */
export interface Curve extends Label {
  name: string;
  ranks: number[] | null;
  x: number[];
  columns: Values[];
  /** The x at which a rank's value was NaN or infinite. */
  marks: number[];
  per_point: number;
}

/** The series of a message, in its order. `wide` has float64 (x, then marks, of each series), `narrow` float32 (its columns). */
export function decode(message: Message, buffers: DataView[]): Curve[] {
  const wide = floats(buffers[0], Float64Array);
  const narrow = floats(buffers[1], Float32Array);
  let w = 0;
  let v = 0;
  return message.series.map(head => {
    const x = Array.from(wide.subarray(w, (w += head.n)));
    const marks = Array.from(wide.subarray(w, (w += head.marks)));
    const columns: Values[] = [];
    for (let i = 0; i < (head.ranks === null ? 3 : head.ranks.length); i++) {
      const column = narrow.subarray(v, (v += head.n));
      columns.push(Array.from(column, value => (Number.isFinite(value) ? value : null)));
    }
    const label = message.labels?.[head.name] ?? { label: head.name, unit: '', group: head.name };
    return { ...label, name: head.name, ranks: head.ranks, x, columns, marks, per_point: head.per_point };
  });
}

function floats<T extends Float64Array | Float32Array>(
  view: DataView | undefined,
  kind: { new (buffer: ArrayBuffer): T; BYTES_PER_ELEMENT: number }
): T {
  if (!view) {
    return new kind(new ArrayBuffer(0));
  }
  // Copied: a view may begin anywhere, and a typed array only at a multiple of its size.
  const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer;
  return new kind(bytes);
}

/** What a page has of the curves. */
export class Curves {
  readonly byName = new Map<string, Curve>();

  whole(curves: Curve[]): void {
    this.byName.clear();
    curves.forEach(curve => this.byName.set(curve.name, curve));
  }

  /** Append; false where it does not fit on what is there, which then has to be asked for as a whole. */
  tail(curves: Curve[]): boolean {
    for (const curve of curves) {
      const there = this.byName.get(curve.name);
      if (!there || String(there.ranks) !== String(curve.ranks)) {
        return false;
      }
    }
    for (const curve of curves) {
      const there = this.byName.get(curve.name) as Curve;
      if (curve.x.length === 0) {
        continue;
      }
      const keep = firstAtLeast(there.x, curve.x[0]);
      there.x = there.x.slice(0, keep).concat(curve.x);
      there.columns = there.columns.map((column, i) => column.slice(0, keep).concat(curve.columns[i]));
      there.marks = there.marks.filter(mark => mark < curve.x[0]).concat(curve.marks);
    }
    return true;
  }

  /** In the order in which they came. */
  ofGroup(group: string): Curve[] {
    return [...this.byName.values()].filter(curve => curve.group === group && curve.x.length > 0);
  }

  get groups(): string[] {
    return [...new Set([...this.byName.values()].filter(c => c.x.length > 0).map(curve => curve.group))];
  }

  /** The least and greatest x of all. */
  get extent(): [number, number] | null {
    const all = [...this.byName.values()].filter(curve => curve.x.length > 0);
    if (all.length === 0) {
      return null;
    }
    return [Math.min(...all.map(c => c.x[0])), Math.max(...all.map(c => c.x[c.x.length - 1]))];
  }
}

/** The place of the first value of ascending `x` that is `least` or more. */
export function firstAtLeast(x: number[], least: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < least) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** One value per point for all ranks: their median, or the one in the middle of the band. */
export function middle(curve: Curve): Values {
  if (curve.ranks === null) {
    return curve.columns[1];
  }
  return curve.x.map((_, i) => {
    const known = curve.columns.map(column => column[i]).filter((v): v is number => v !== null);
    known.sort((a, b) => a - b);
    return known.length === 0 ? null : known[(known.length - 1) >> 1];
  });
}

/** The parts of a whole on top of each other: at each x the sum of the parts up to here. Pairs of least and greatest become their mean. */
export function stacked(parts: Curve[]): { x: number[]; own: Values[]; sums: Values[] } {
  const pairs = parts.some(part => part.per_point > 1 && part.ranks !== null);
  const all = parts.map(part => (pairs ? halved(part.x, middle(part)) : { x: part.x, y: middle(part) }));
  const n = Math.min(...all.map(part => part.x.length));
  const own = all.map(part => part.y.slice(0, n));
  const sums: Values[] = [];
  own.forEach((column, i) => {
    sums.push(column.map((value, k) => (value === null ? null : value + (i === 0 ? 0 : (sums[i - 1][k] ?? 0)))));
  });
  return { x: all[0].x.slice(0, n), own, sums };
}

function halved(x: number[], y: Values): { x: number[]; y: Values } {
  const xs: number[] = [];
  const ys: Values = [];
  for (let i = 0; i < x.length; i += 2) {
    const a = y[i];
    const b = i + 1 < y.length ? y[i + 1] : a;
    xs.push(x[i]);
    ys.push(a === null || b === null ? (a ?? b) : (a + b) / 2);
  }
  return { x: xs, y: ys };
}
