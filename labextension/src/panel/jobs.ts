// What the server tells of a training job, and what a page makes of it. No front end here.

import { bytes, duration } from '../common/format';
import { counted, pgettext, text } from '../common/language';

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

const SIGNS = (): Record<Code, Sign> => ({
  waiting: { word: pgettext('ranks', 'waiting'), glyph: '○', tone: 'quiet' },
  training: { word: text('training'), glyph: '●', tone: 'good' },
  slow: { word: text('slow'), glyph: '◐', tone: 'warning' },
  stalled: { word: text('stalled'), glyph: '▲', tone: 'bad' },
  hung: { word: text('hung'), glyph: '■', tone: 'bad' },
  diverged: { word: text('diverged'), glyph: '✖', tone: 'bad' },
  lost: { word: text('lost'), glyph: '✖', tone: 'bad' },
  finished: { word: text('ended'), glyph: '✔', tone: 'quiet' },
  detached: { word: text('detached'), glyph: '○', tone: 'quiet' }
});

export function sign(job: Job): Sign {
  if (job.state) {
    return SIGNS()[job.state.code] ?? SIGNS().waiting;
  }
  if (job.gone) {
    return SIGNS().finished;
  }
  return { word: job.agent ? text('no steps yet') : text('not attached'), glyph: '○', tone: 'quiet' };
}

/** Whether somebody should look at it. */
export function inTrouble(job: Job): boolean {
  return sign(job).tone === 'bad';
}

/** What people call it: the script that it runs, where its command line tells. */
export function title(job: Job): string {
  if (job.kind === 'kernel') {
    return text('Notebook kernel {id}', { id: job.name.replace(/^kernel:/, '').slice(0, 8) });
  }
  if (job.kind === 'ray') {
    const [id, address] = job.name.replace(/^ray:/, '').split('@');
    return id ? text('Ray job {id}', { id }) : text('Ray cluster {address}', { address: address ?? '' });
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
    return counted('{n:,} process', '{n:,} processes', job.processes);
  }
  return job.kind === 'launcher' ? counted('{n:,} rank', '{n:,} ranks', job.ranks) : `pid ${job.pid}`;
}

/** One line of figures, smaller than the title. */
export function summary(job: Job): string {
  const parts = [size(job)];
  if (job.gone) {
    return text('has ended');
  }
  if (job.framework) {
    parts.push(job.framework);
  }
  parts.push(text('up {time}', { time: duration(job.running_s) }));
  return parts.join(' · ');
}

export function memory(job: Job): string {
  const host = bytes(job.rss_bytes);
  return job.cuda_bytes === null ? host : text('{host} + {gpu} on GPU', { host, gpu: bytes(job.cuda_bytes) });
}

/** What goes into a status bar: the trouble if there is any, else how many there are. */
export function overall(jobs: readonly Job[]): { text: string; glyph: string; trouble: boolean } {
  const bad = jobs.filter(inTrouble);
  if (bad.length > 0) {
    const shown = sign(bad[0]);
    const kinds = new Set(bad.map(job => sign(job).word));
    const words =
      kinds.size === 1
        ? counted('{n} training job {state}', '{n} training jobs {state}', bad.length, { state: shown.word })
        : counted('{n} training job in trouble', '{n} training jobs in trouble', bad.length);
    return { text: words, glyph: shown.glyph, trouble: true };
  }
  const here = jobs.filter(job => !job.gone).length;
  const words = here === 0 ? text('no training job') : counted('{n} training job', '{n} training jobs', here);
  return { text: words, glyph: here === 0 ? '○' : '●', trouble: false };
}

/** What changed for the worse, or ended, between two looks: in words, for who is told. */
export function news(before: readonly Job[], now: readonly Job[]): { job: Job; text: string; bad: boolean }[] {
  const known = new Map(before.map(job => [job.name, job]));
  const told: { job: Job; text: string; bad: boolean }[] = [];
  for (const job of now) {
    const old = known.get(job.name);
    known.delete(job.name);
    if (old === undefined) {
      told.push({ job, text: text('{job} has appeared', { job: title(job) }), bad: false });
    } else if (inTrouble(job) && (!inTrouble(old) || old.state?.code !== job.state?.code)) {
      told.push({
        job,
        text: text('{what}: {words}', { what: title(job), words: job.state?.words ?? sign(job).word }),
        bad: true
      });
    } else if (inTrouble(old) && !inTrouble(job)) {
      told.push({ job, text: text('{job} is {state} again', { job: title(job), state: sign(job).word }), bad: false });
    } else if (job.gone && !old.gone) {
      told.push({ job, text: text('{job} has ended', { job: title(job) }), bad: false });
    }
  }
  for (const job of known.values()) {
    told.push({ job, text: text('{job} has ended', { job: title(job) }), bad: false });
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
