// Numbers as people read them. What is not known is an en dash, never an empty cell or NaN.

import { language } from './language';

export const UNKNOWN = '–';

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** 1536 -> "1.5 KiB". */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) {
    return UNKNOWN;
  }
  let size = Math.abs(value);
  let unit = 0;
  // 1023.95 would be shown as 1024.0: it belongs to the next unit.
  while (size >= 1023.95 && unit < BINARY.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const shown = unit === 0 || size >= 99.95 ? Math.round(size).toString() : size.toFixed(1);
  return `${value < 0 ? '-' : ''}${shown} ${BINARY[unit]}`;
}

/** Seconds as "0.4 ms", "350 ms", "12.3 s", "4 min 05 s", "3 h 07 min", "2 d 3 h". */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds) || seconds < 0) {
    return UNKNOWN;
  }
  if (seconds < 0.00995) {
    return `${(seconds * 1000).toFixed(1)} ms`;
  }
  if (seconds < 0.9995) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  if (seconds < 59.95) {
    return `${seconds.toFixed(1)} s`;
  }
  const whole = Math.round(seconds);
  if (whole < 3600) {
    return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  }
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) {
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** Up to `digits` significant ones: 0.00031415 -> "3.142e-4", 1234567 -> "1234567" (whole numbers stay whole). */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) {
    return UNKNOWN;
  }
  if (Number.isNaN(value)) {
    return 'NaN';
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? 'Inf' : '-Inf';
  }
  if (Number.isInteger(value) && Math.abs(value) < 1e9) {
    return value.toString();
  }
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split('e');
    return `${trimmed(mantissa)}e${exponent.replace('+', '')}`;
  }
  return trimmed(value.toPrecision(digits));
}

/** A share of one as "37 %". */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) {
    return UNKNOWN;
  }
  const points = share * 100;
  return `${points !== 0 && Math.abs(points) < 9.95 ? points.toFixed(1) : Math.round(points)} %`;
}

/** The time of day, as the reader's language writes it. */
export function clock(when: Date): string {
  return when.toLocaleTimeString(language() === 'en' ? undefined : language());
}

function two(n: number): string {
  return n.toString().padStart(2, '0');
}

function trimmed(digits: string): string {
  return digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits;
}

/** Line `line` of a file between its neighbours, the first of which is number `first`. */
export interface Excerpt {
  line: number;
  first: number;
  lines: string[];
}

/** Its lines with their numbers, the one that is meant marked: `> 17 │ code`. */
export function numbered(source: Excerpt): { text: string; meant: boolean }[] {
  const digits = String(source.first + source.lines.length - 1).length;
  return source.lines.map((line, i) => {
    const n = source.first + i;
    return {
      text: `${n === source.line ? '>' : ' '} ${String(n).padStart(digits)} │ ${line}\n`,
      meant: n === source.line
    };
  });
}
