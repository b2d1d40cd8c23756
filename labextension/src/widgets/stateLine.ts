// The job's state in words, on top of everything. Seen as it changes each second; read aloud only when it becomes another one.

export interface JobState {
  code: string;
  words: string;
  step: number;
  /** The step in words: by the optimizer's own count, and since the attach. */
  at: string;
}

const SIGNS: Record<string, string> = {
  training: '▶',
  slow: '◔',
  stalled: '‖',
  hung: '■',
  diverged: '✖',
  lost: '✖',
  finished: '✔',
  waiting: '…'
};

const KINDS: Record<string, string> = {
  training: 'good',
  finished: 'good',
  slow: 'warning',
  stalled: 'warning',
  hung: 'bad',
  diverged: 'bad',
  lost: 'bad'
};

/** A line that shows states: each has a sign and words, so that colour is never the only difference. */
export class StateLine {
  readonly node = document.createElement('div');
  private sign = document.createElement('span');
  private words = document.createElement('span');
  private step = document.createElement('span');
  private aloud = document.createElement('span');
  private code = '';

  constructor() {
    this.node.className = 'tdb-state';
    this.sign.className = 'tdb-state-sign';
    this.sign.setAttribute('aria-hidden', 'true');
    this.words.className = 'tdb-state-words';
    this.step.className = 'tdb-state-step';
    this.aloud.className = 'tdb-aloud';
    this.aloud.setAttribute('role', 'status');
    this.aloud.setAttribute('aria-live', 'polite');
    this.node.append(this.sign, this.words, this.step, this.aloud);
  }

  show(state: JobState): void {
    this.node.dataset.code = state.code;
    this.node.dataset.kind = KINDS[state.code] ?? 'neutral';
    this.sign.textContent = SIGNS[state.code] ?? '•';
    this.words.textContent = state.words;
    this.step.textContent = state.step > 0 ? state.at : '';
    if (state.code !== this.code) {
      this.code = state.code;
      this.aloud.textContent = state.words;
    }
  }
}
