// Which part of the x axis is seen, and which ranks.

import { text } from '../common/language';

/** null, null: all there is, and what comes. */
export interface Range {
  first: number | null;
  last: number | null;
}

export const ALL: Range = { first: null, last: null };

/** `range` within `extent`, `factor` times as wide about its middle; all of it becomes `ALL` again. */
export function zoomed(range: Range, extent: [number, number], factor: number, about?: number): Range {
  const [low, high] = [range.first ?? extent[0], range.last ?? extent[1]];
  const centre = about ?? (low + high) / 2;
  const width = Math.max(1, (high - low) * factor);
  const share = high > low ? (centre - low) / (high - low) : 0.5;
  return within({ first: centre - width * share, last: centre + width * (1 - share) }, extent);
}

/** `range` moved by a `share` of its width; at the ends it stops. */
export function panned(range: Range, extent: [number, number], share: number): Range {
  if (range.first === null || range.last === null) {
    return range;
  }
  const width = range.last - range.first;
  const least = extent[0] - range.first;
  const most = Math.max(0, extent[1] - range.last);
  const by = Math.min(most, Math.max(Math.min(0, least), width * share));
  return { first: range.first + by, last: range.last + by };
}

function within(range: { first: number; last: number }, extent: [number, number]): Range {
  const first = Math.max(extent[0], range.first);
  const last = Math.min(extent[1], range.last);
  return first <= extent[0] && last >= extent[1] ? ALL : { first, last };
}

/** "0-3, 7" -> [0, 1, 2, 3, 7]; null for "" and "all"; a text that says what is wrong with it. */
export function parseRanks(typed: string, known: number[], most: number): number[] | null | string {
  const words = typed
    .split(/[\s,;]+/)
    .filter(word => word !== '')
    .map(word => word.toLowerCase());
  if (words.length === 0 || (words.length === 1 && words[0] === 'all')) {
    return null;
  }
  const there = new Set(known);
  const chosen = new Set<number>();
  for (const word of words) {
    const match = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(word);
    if (!match) {
      return text('"{word}" is no rank: write for example 0-3, 7', { word });
    }
    const low = Number(match[1]);
    const high = match[2] === undefined ? low : Number(match[2]);
    if (high - low >= 100_000 || high < low) {
      return text('"{word}" is no range of ranks', { word });
    }
    for (let rank = low; rank <= high; rank++) {
      if (there.has(rank)) {
        chosen.add(rank);
      } else if (match[2] === undefined) {
        return text('there is no rank {rank}', { rank });
      }
    }
  }
  if (chosen.size > most) {
    return text('{n} ranks: at most {most} are drawn one by one; "all" shows a band', { n: chosen.size, most });
  }
  return chosen.size === 0 ? text('none of these ranks is there') : [...chosen].sort((a, b) => a - b);
}
