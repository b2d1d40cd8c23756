// What a diagnosis is made of, in words: states, checks and roles, which the kernel says in English, and cells of the matrix.

import { counted, pgettext, text } from '../common/language';

export interface Cell {
  issued: number | null;
  completed: number | null;
  behind: number;
  waits: boolean;
}

/** The state of a rank or a worker, which the kernel says in English. */
export function stateWords(state: string): string {
  const words: Record<string, string> = {
    stepping: text('stepping'),
    computing: pgettext('state', 'computing'),
    waiting: pgettext('state', 'waiting'),
    stopped: pgettext('state', 'stopped'),
    ended: text('ended'),
    starting: text('starting'),
    idle: text('idle'),
    'not seen': text('not seen'),
    'not known': text('not known'),
    running: text('running'),
    blocked: text('blocked'),
    'in __init__': text('in __init__'),
    registering: text('registering'),
    'building runtime_env': text('building runtime_env'),
    'waiting for resources': text('waiting for resources'),
    'waiting for an argument': text('waiting for an argument'),
    infeasible: text('infeasible'),
    restarting: text('restarting'),
    dead: text('dead')
  };
  return words[state] ?? state;
}

/** What a process is, beside the ranks. */
export function roleWords(role: string): string {
  const words: Record<string, string> = { child: text('child process') };
  return words[role] ?? role;
}

export function checkWords(state: string): string {
  const words: Record<string, string> = {
    fine: text('fine'),
    trouble: text('trouble'),
    'not known': text('not known')
  };
  return words[state] ?? state;
}

export function taken(content: { at: string; took: string }): string {
  return text('at {at}, in {took}', content);
}

export function countWorkers(n: number): string {
  return counted('{n:,} worker', '{n:,} workers', n);
}

/** "issued / completed", with an arrow down where the rank is behind the foremost, and a word where it waits. */
export function cellWords(cell: Cell | null): string {
  if (cell === null) {
    return '–';
  }
  const figures = `${cell.issued ?? '?'} / ${cell.completed ?? '?'}`;
  const words = cell.waits ? text('{figures}, waits', { figures }) : figures;
  return words + (cell.behind > 0 ? ` ▼${cell.behind}` : '');
}

export function cellTitle(cell: Cell | null): string {
  if (cell === null) {
    return text('not in this group');
  }
  const words = [
    text('issued {n}', { n: cell.issued ?? text('not known') }),
    text('completed {n}', { n: cell.completed ?? text('not known') }),
    cell.waits ? text('waits here') : '',
    cell.behind > 0 ? text('{n} behind the foremost rank', { n: cell.behind }) : ''
  ];
  return words.filter(Boolean).join(text(', '));
}
