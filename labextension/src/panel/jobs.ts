// What the server tells of a training job, and what a page makes of it. No front end here.

import { bytes, count, duration } from '../common/format';

export type Code = 'waiting' | 'training' | 'slow' | 'stalled' | 'hung' | 'diverged' | 'lost' | 'finished' | 'detached';

export interface State {
  code: Code;
  words: string;
  since_s: number;
}

export interface Job {
  name: string;
  kind: 'process' | 'rank' | 'launcher' | 'kernel' | 'ray';
  pid: number;
  command: string;
  user: string;
  framework: string | null;
  processes: number;
  ranks: number;
  running_s: number;
  agent: boolean;
  why_not: string | null;
  followed: boolean;
  gone: boolean;
  /** Counted since the attach; `own_step` is the optimizer's own count, where it keeps one, `at` both in words. */
  step: number | null;
  own_step: number | null;
  at: string;
  loss: (number | null)[];
  rss_bytes: number | null;
  cuda_bytes: number | null;
  state: State | null;
}

export interface Listing {
  host: string;
  jobs: Job[];
  actions: { allowed: boolean; message?: string; next_step?: string };
}

/** What a state is shown as. The sign differs in shape, so that nobody needs the colour. */
export interface Sign {
  word: string;
  glyph: string;
  tone: 'good' | 'warning' | 'bad' | 'quiet';
}

const SIGNS: Record<Code, Sign> = {
  waiting: { word: 'waiting', glyph: '○', tone: 'quiet' },
  training: { word: 'training', glyph: '●', tone: 'good' },
  slow: { word: 'slow', glyph: '◐', tone: 'warning' },
  stalled: { word: 'stalled', glyph: '▲', tone: 'bad' },
  hung: { word: 'hung', glyph: '■', tone: 'bad' },
  diverged: { word: 'diverged', glyph: '✖', tone: 'bad' },
  lost: { word: 'lost', glyph: '✖', tone: 'bad' },
  finished: { word: 'ended', glyph: '✔', tone: 'quiet' },
  detached: { word: 'left', glyph: '○', tone: 'quiet' }
};

export function sign(job: Job): Sign {
  if (job.state) {
    return SIGNS[job.state.code] ?? SIGNS.waiting;
  }
  if (job.gone) {
    return SIGNS.finished;
  }
  return { word: job.agent ? 'no steps yet' : 'not attached', glyph: '○', tone: 'quiet' };
}

/** Whether somebody should look at it. */
export function inTrouble(job: Job): boolean {
  return sign(job).tone === 'bad';
}

/** What people call it: the script that it runs, where its command line tells. */
export function title(job: Job): string {
  if (job.kind === 'kernel') {
    return `Notebook kernel ${job.name.replace(/^kernel:/, '').slice(0, 8)}`;
  }
  if (job.kind === 'ray') {
    const [id, address] = job.name.replace(/^ray:/, '').split('@');
    return id ? `Ray job ${id}` : `Ray cluster ${address ?? ''}`;
  }
  const words = job.command.split(/\s+/);
  const script = [...words].find(word => /\.py$/.test(word));
  if (script !== undefined) {
    return script.split('/').pop() as string;
  }
  const module = words.indexOf('-m');
  if (module > 0 && words[module + 1]) {
    return words[module + 1];
  }
  return words[0]?.split('/').pop() || job.name;
}

/** Of a Ray job it is not known from outside which processes are ranks. */
function size(job: Job): string {
  if (job.kind === 'ray') {
    return `${job.processes} process${job.processes === 1 ? '' : 'es'}`;
  }
  return job.kind === 'launcher' ? count(job.ranks, 'rank') : `pid ${job.pid}`;
}

/** One line of figures, smaller than the title. */
export function summary(job: Job): string {
  const parts = [size(job)];
  if (job.gone) {
    return 'has ended';
  }
  if (job.framework) {
    parts.push(job.framework);
  }
  parts.push(`up ${duration(job.running_s)}`);
  return parts.join(' · ');
}

export function memory(job: Job): string {
  const host = bytes(job.rss_bytes);
  return job.cuda_bytes === null ? host : `${host} + ${bytes(job.cuda_bytes)} on GPU`;
}

/** What goes into a status bar: the trouble if there is any, else how many there are. */
export function overall(jobs: readonly Job[]): { text: string; glyph: string; trouble: boolean } {
  const bad = jobs.filter(inTrouble);
  if (bad.length > 0) {
    const shown = sign(bad[0]);
    const kinds = new Set(bad.map(job => sign(job).word));
    const text = `${bad.length} training ${bad.length === 1 ? 'job' : 'jobs'} ${kinds.size === 1 ? shown.word : 'in trouble'}`;
    return { text, glyph: shown.glyph, trouble: true };
  }
  const here = jobs.filter(job => !job.gone).length;
  const text = here === 0 ? 'no training job' : `${here} training ${here === 1 ? 'job' : 'jobs'}`;
  return { text, glyph: here === 0 ? '○' : '●', trouble: false };
}

/** What changed for the worse, or ended, between two looks: in words, for who is told. */
export function news(before: readonly Job[], now: readonly Job[]): { job: Job; text: string; bad: boolean }[] {
  const known = new Map(before.map(job => [job.name, job]));
  const told: { job: Job; text: string; bad: boolean }[] = [];
  for (const job of now) {
    const old = known.get(job.name);
    known.delete(job.name);
    if (old === undefined) {
      told.push({ job, text: `${title(job)} has appeared`, bad: false });
    } else if (inTrouble(job) && (!inTrouble(old) || old.state?.code !== job.state?.code)) {
      told.push({ job, text: `${title(job)}: ${job.state?.words ?? sign(job).word}`, bad: true });
    } else if (inTrouble(old) && !inTrouble(job)) {
      told.push({ job, text: `${title(job)} is ${sign(job).word} again`, bad: false });
    } else if (job.gone && !old.gone) {
      told.push({ job, text: `${title(job)} has ended`, bad: false });
    }
  }
  for (const job of known.values()) {
    told.push({ job, text: `${title(job)} has ended`, bad: false });
  }
  return told;
}

const PLAIN = /^[A-Za-z0-9_:@./+-]+$/;

/** The code of a cell that attaches to `target`, and watches it if asked. What is odd in a name cannot become code. */
export function cell(target: string, watch: boolean): string {
  if (PLAIN.test(target)) {
    return `%load_ext traindbg\n${watch ? '%watch' : '%attach'} ${target}`;
  }
  // A JSON text of ASCII only is a Python text, too.
  const quoted = JSON.stringify(target).replace(
    /[\u007f-\uffff]/g,
    c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`
  );
  return `import traindbg\njob = traindbg.attach(${quoted})\n${watch ? 'job.watch()' : 'job'}`;
}
