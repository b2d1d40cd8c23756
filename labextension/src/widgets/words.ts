// Values of a chart as words.

import { bytes, clock, duration, number } from '../common/format';
import { text, whole } from '../common/language';

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

/** A place on the x axis: a time, or a step counted since the attach, of which the optimizer's own count is `ahead` by so many. */
export function formatX(x: 'step' | 'time', value: number, ahead: number | null): string {
  return x === 'step' ? stepWords(value, ahead) : clock(new Date(value * 1000));
}

export function stepWords(step: number, ahead: number | null): string {
  return text('step {step}', { step: whole(Math.round(step + (ahead ?? 0))) });
}

/** Where an axis of steps has its ticks: at round numbers as they are shown, `apart` from each other. */
export function stepTicks(min: number, max: number, apart: number, ahead: number | null): number[] {
  const first = Math.ceil((min + (ahead ?? 0)) / apart);
  const last = Math.floor((max + (ahead ?? 0)) / apart);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * apart - (ahead ?? 0));
}

/** In full: neighbouring ticks of a late step differ in their last digits. */
export function tick(step: number): string {
  return Number.isInteger(step) ? whole(step) : '';
}
