// An emergency checkpoint in words: what it will be, and how far it is.

import { bytes, duration, percent } from '../common/format';
import { pgettext, text } from '../common/language';
import type { Plan, Task } from './api';

/** The plan as sentences. */
export function planInWords(plan: Plan): [string, string][] {
  const rows: [string, string][] = [
    [text('Size'), text('{what} ({words})', { what: bytes(plan.bytes), words: kind(plan.kind) })],
    [text('Free space there'), bytes(plan.free_bytes)],
    [
      text('The training stands still for'),
      plan.pause_s === null
        ? text('one copy of its state in memory')
        : text('about {time}', { time: duration(plan.pause_s) })
    ]
  ];
  if (plan.there !== 'nothing') {
    rows.push([text('There now'), there(plan.there)]);
  }
  if (plan.still.length > 0) {
    rows.push([text('Makes no steps'), text('rank {ranks}: saved as it stands', { ranks: list(plan.still) })]);
  }
  if (plan.missing.length > 0) {
    rows.push([text('Not in it'), text('rank {ranks}', { ranks: list(plan.missing) })]);
  }
  if (plan.note) {
    rows.push([text('Note'), plan.note]);
  }
  return rows;
}

/** What a checkpoint is, as its manifest has it. */
function kind(name: string): string {
  const words: Record<string, string> = { replicated: text('replicated'), sharded: text('sharded') };
  return words[name] ?? name;
}

/** What is at the directory, which the server says in English. */
function there(name: string): string {
  const words: Record<string, string> = {
    checkpoint: text('checkpoint'),
    'empty directory': text('empty directory'),
    'something else': text('something else')
  };
  return words[name] ?? name;
}

function list(ranks: number[]): string {
  return ranks.join(pgettext('list', ', '));
}

/** How far a checkpoint is. */
export function progress(task: Task): string {
  if (task.total_bytes === 0) {
    return text('copying the state');
  }
  return text('{done} of {total}, {share}', {
    done: bytes(task.done_bytes),
    total: bytes(task.total_bytes),
    share: percent(task.done_bytes / task.total_bytes)
  });
}
