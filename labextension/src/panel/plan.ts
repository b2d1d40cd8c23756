// An emergency checkpoint in words: what it will be, and how far it is.

import { bytes, duration, percent } from '../common/format';
import type { Plan, Task } from './api';

/** The plan as sentences. */
export function planInWords(plan: Plan): [string, string][] {
  const rows: [string, string][] = [
    ['Size', `${bytes(plan.bytes)} (${plan.kind})`],
    ['Free space there', bytes(plan.free_bytes)],
    [
      'The training stands still for',
      plan.pause_s === null ? 'one copy of its state in memory' : `about ${duration(plan.pause_s)}`
    ]
  ];
  if (plan.there !== 'nothing') {
    rows.push(['There now', plan.there]);
  }
  if (plan.still.length > 0) {
    rows.push(['Makes no steps', `rank ${plan.still.join(', ')}: saved as it stands`]);
  }
  if (plan.missing.length > 0) {
    rows.push(['Not in it', `rank ${plan.missing.join(', ')}`]);
  }
  if (plan.note) {
    rows.push(['Note', plan.note]);
  }
  return rows;
}

/** How far a checkpoint is. */
export function progress(task: Task): string {
  if (task.total_bytes === 0) {
    return 'copying the state';
  }
  return `${bytes(task.done_bytes)} of ${bytes(task.total_bytes)}, ${percent(task.done_bytes / task.total_bytes)}`;
}
