// A line so small that it has no axes: where it goes, and where it has gaps.

import { text } from './language';

export type Values = readonly (number | null)[];

/** The `d` of an SVG path through `values` in a box of `width` x `height`; a gap where a value is missing. "" where there is none at all. */
export function path(values: Values, width: number, height: number): string {
  const range = extent(values);
  if (range === null) {
    return '';
  }
  const [low, high] = range;
  const x = (i: number): number => (values.length < 2 ? width / 2 : (i / (values.length - 1)) * width);
  const y = (v: number): number => (high === low ? height / 2 : height - ((v - low) / (high - low)) * height);
  let drawing = false;
  let d = '';
  values.forEach((value, i) => {
    if (value === null || !Number.isFinite(value)) {
      drawing = false;
      return;
    }
    // A point of its own between two gaps is drawn too: a line to itself, which round caps make a dot.
    const alone = !drawing && !isNumber(values[i + 1]);
    d += `${drawing ? 'L' : 'M'}${short(x(i))} ${short(y(value))}`;
    d += alone ? `L${short(x(i))} ${short(y(value))}` : '';
    drawing = true;
  });
  return d;
}

/** Least and greatest of what is there, or null. */
export function extent(values: Values): [number, number] | null {
  const known = values.filter(isNumber);
  return known.length === 0 ? null : [Math.min(...known), Math.max(...known)];
}

/** What a line shows, for who cannot see it: "from 2.31 to 0.42, lowest 0.4". Gaps at its end are told. */
export function inWords(values: Values, shown: (value: number) => string): string {
  const known = values.filter(isNumber);
  const range = extent(values);
  if (range === null) {
    return text('no values yet');
  }
  const last = values[values.length - 1];
  const end = isNumber(last) ? shown(last) : text('not a number');
  return text('from {first} to {last}, lowest {least}, highest {most}', {
    first: shown(known[0]),
    last: end,
    least: shown(range[0]),
    most: shown(range[1])
  });
}

function isNumber(value: number | null | undefined): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

function short(n: number): string {
  return n.toFixed(1).replace(/\.0$/, '');
}
