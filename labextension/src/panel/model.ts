// Asks for the list of jobs: often while the panel is to be seen, seldom while it is not, never while the page is hidden or this is off.

import { Signal } from '@lumino/signaling';
import { Job, Listing, news } from './jobs';

export interface Rates {
  /** Whether to ask at all. */
  on: boolean;
  /** Seconds between two looks while the panel is to be seen. */
  seen_s: number;
  /** Seconds between two looks while it is not; 0: none. */
  unseen_s: number;
}

/** What the model needs of the world; tests have a small one. */
export interface World {
  look(): Promise<Listing>;
  hidden(): boolean;
  later(run: () => void, seconds: number): () => void;
}

export class JobsModel {
  readonly changed = new Signal<this, void>(this);
  /** What is worth telling, as it happens; nothing for what the first look found. */
  readonly told = new Signal<this, { job: Job; text: string; bad: boolean }>(this);
  jobs: readonly Job[] = [];
  host = '';
  actions: Listing['actions'] = { allowed: false };
  /** Why the last look failed, or null. */
  problem: { message: string; nextStep: string } | null = null;
  /** Whether there has been an answer. */
  looked = false;

  private rates: Rates = { on: true, seen_s: 2, unseen_s: 15 };
  private seen = false;
  private looking: Promise<void> | null = null;
  private cancel: () => void = () => undefined;
  private disposed = false;

  constructor(private readonly world: World) {}

  get on(): boolean {
    return this.rates.on;
  }

  setRates(rates: Rates): void {
    this.rates = rates;
    this.changed.emit();
    this.plan(0);
  }

  /** The panel is, or is no longer, to be seen. */
  setSeen(seen: boolean): void {
    if (seen !== this.seen) {
      this.seen = seen;
      this.plan(seen ? 0 : this.interval());
    }
  }

  /** Look now, whatever the settings say. Never rejects: `problem` tells. */
  refresh(): Promise<void> {
    this.looking ??= this.look().finally(() => {
      this.looking = null;
      this.plan(this.interval());
    });
    return this.looking;
  }

  find(name: string): Job | undefined {
    return this.jobs.find(job => job.name === name);
  }

  dispose(): void {
    this.disposed = true;
    this.cancel();
    Signal.clearData(this);
  }

  /** Seconds until the next look, or null for none. An unseen panel asks on only where there is something to watch over. */
  private interval(): number | null {
    if (!this.rates.on) {
      return null;
    }
    if (this.seen) {
      return this.rates.seen_s;
    }
    const worthWhile = !this.looked || this.jobs.length > 0;
    return this.rates.unseen_s > 0 && worthWhile ? this.rates.unseen_s : null;
  }

  private plan(seconds: number | null): void {
    this.cancel();
    this.cancel = () => undefined;
    if (this.disposed || seconds === null || this.interval() === null) {
      return;
    }
    this.cancel = this.world.later(() => {
      if (this.world.hidden()) {
        this.plan(this.interval());
      } else {
        void this.refresh();
      }
    }, seconds);
  }

  private async look(): Promise<void> {
    try {
      const listing = await this.world.look();
      const changes = this.looked ? news(this.jobs, listing.jobs) : [];
      this.jobs = listing.jobs;
      this.host = listing.host;
      this.actions = listing.actions;
      this.problem = null;
      this.looked = true;
      changes.forEach(change => this.told.emit(change));
    } catch (error) {
      const { message, nextStep } = error as { message: string; nextStep?: string };
      this.problem = { message, nextStep: nextStep ?? '' };
    }
    this.changed.emit();
  }
}
