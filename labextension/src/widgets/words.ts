// Values of a chart as words.

import { bytes, duration, number } from '../common/format';

export function format(unit: string, value: number | null | undefined): string {
  if (value === null || value === undefined) {
    return '–';
  }
  return unit === 'B'
    ? bytes(value)
    : unit === 's'
      ? duration(value)
      : unit === '%'
        ? `${number(value, 3)} %`
        : number(value, 4);
}

export function formatX(x: 'step' | 'time', value: number): string {
  return x === 'step' ? `step ${Math.round(value)}` : new Date(value * 1000).toLocaleTimeString();
}

export function tick(value: number): string {
  if (value !== Math.round(value)) {
    return '';
  }
  return value >= 1e6
    ? `${+(value / 1e6).toFixed(3)}M`
    : value >= 1e4
      ? `${+(value / 1e3).toFixed(2)}k`
      : String(value);
}
