// Which cell of a notebook a place means.

import { Place } from './markup';

/** As much of a cell as tells that; of one that is no code, nothing fits. */
export interface Cell {
  source: string;
  /** The number in brackets; null while it runs, or waits for its turn. */
  count: number | null;
  running: boolean;
}

/**
 * The index of the cell that `place` means, -1 where it is not there. The kernel names a cell's file by what was run: a number alone may
 * be of an earlier kernel. Where the cell has been changed since, its number tells; one that runs has none yet, and where several
 * wait for their turn, it is the first with so many lines.
 */
export function indexOf(cells: Cell[], place: Place): number {
  const wanted = /(\d+)\.py$/.exec(place.file)?.[1];
  const same = cells.filter(cell => String(hash(cell.source)) === wanted);
  const counted = (cell: Cell): boolean => place.cell !== null && cell.count === place.cell;
  const runs = (cell: Cell): boolean => cell.running && cell.source.split('\n').length >= place.line;
  const found = same.find(counted) ?? same.find(runs) ?? same[0] ?? cells.find(counted) ?? cells.find(runs);
  return found === undefined ? -1 : cells.indexOf(found);
}

const SEED = 0xc70f6907;
const FACTOR = 0x5bd1e995;

/** MurmurHash2 of the text's UTF-8, as ipykernel/compiler.py has it for the names of cells' files. */
export function hash(text: string): number {
  const data = new TextEncoder().encode(text);
  const mixed = (value: number): number => {
    const once = Math.imul(value, FACTOR);
    return Math.imul(once ^ (once >>> 24), FACTOR);
  };
  let sum = SEED ^ data.length;
  const whole = data.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    sum = Math.imul(sum, FACTOR) ^ mixed(data[i] | (data[i + 1] << 8) | (data[i + 2] << 16) | (data[i + 3] << 24));
  }
  if (whole < data.length) {
    sum = Math.imul(sum ^ [...data.subarray(whole)].reduce((rest, byte, i) => rest | (byte << (8 * i)), 0), FACTOR);
  }
  sum = Math.imul(sum ^ (sum >>> 13), FACTOR);
  return (sum ^ (sum >>> 15)) >>> 0;
}
