// What is drawn over the curves of a chart: events as lines with a sign, and a cross where a value was not finite.

import uPlot from 'uplot';

import { Palette } from './palette';

export interface EventMark {
  kind: string;
  /** Counted since the attach. */
  step: number;
  time_s: number;
  ranks: number[];
  text: string;
}

/** By kind, as docs/watching.md lists them. */
export const EVENT_SIGNS: Record<string, string> = {
  lr: 'η',
  weight_decay: 'λ',
  clip_norm: '⊓',
  settings: 'Δ',
  checkpoint: '⛁',
  nan: '×',
  hang: '■',
  resumed: '▶',
  lost: '✖',
  restarted: '↻',
  finished: '✔'
};

/** `events` and `notFinite` (both as x) over what `plot` has drawn. */
export function drawMarks(
  plot: uPlot,
  colours: Palette,
  x: 'step' | 'time',
  events: EventMark[],
  notFinite: number[]
): void {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  const across = (value: number) => Math.round(plot.valToPos(value, 'x', true));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, 0, bbox.width, bbox.top + bbox.height);
  ctx.clip();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'top';
  let free = -Infinity; // a sign has room from here on: of those that would lie on each other the first is drawn
  for (const event of [...events].sort((a, b) => a.step - b.step)) {
    const at = across(x === 'time' ? event.time_s : event.step);
    const bad = ['nan', 'hang', 'lost'].includes(event.kind);
    ctx.strokeStyle = ctx.fillStyle = bad ? colours.bad : colours.mark;
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    if (at >= free) {
      ctx.fillText(EVENT_SIGNS[event.kind] ?? '•', at, bbox.top - 12 * ratio);
      free = at + 10 * ratio;
    }
  }
  ctx.fillStyle = colours.bad;
  ctx.textBaseline = 'bottom';
  notFinite.forEach(mark => ctx.fillText('×', across(mark), bbox.top + bbox.height));
  ctx.restore();
}
