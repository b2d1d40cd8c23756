import { Job, Listing } from './jobs';
import { JobsModel, World } from './model';

const TRAINING = { code: 'training', words: 'training', since_s: 0 } as const;

function job(name: string, more: Partial<Job> = {}): Job {
  return { name, kind: 'process', command: `python ${name}.py`, state: TRAINING, gone: false, ...more } as Job;
}

/** A world whose time passes when it is told to. */
class Small implements World {
  jobs: Job[] = [];
  looks = 0;
  away = false;
  failing: Error | null = null;
  private now = 0;
  private waiting: { at: number; run: () => void }[] = [];

  async look(): Promise<Listing> {
    this.looks += 1;
    if (this.failing) {
      throw this.failing;
    }
    return { host: 'here', jobs: this.jobs, actions: { allowed: true } };
  }

  hidden(): boolean {
    return this.away;
  }

  later(run: () => void, seconds: number): () => void {
    const entry = { at: this.now + seconds, run };
    this.waiting.push(entry);
    return () => {
      this.waiting = this.waiting.filter(e => e !== entry);
    };
  }

  async pass(seconds: number): Promise<void> {
    const end = this.now + seconds;
    for (;;) {
      await new Promise(resolve => setTimeout(resolve, 0)); // what was begun ends
      const next = this.waiting.filter(e => e.at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) {
        break;
      }
      this.now = next.at;
      this.waiting = this.waiting.filter(e => e !== next);
      next.run();
    }
    this.now = end;
  }
}

let world: Small;
let model: JobsModel;
beforeEach(() => {
  world = new Small();
  model = new JobsModel(world);
});
afterEach(() => model.dispose());

const RATES = { on: true, seen_s: 2, unseen_s: 15 };

test('a panel that is seen asks at its rate', async () => {
  model.setSeen(true);
  model.setRates(RATES);
  await world.pass(10);
  expect(world.looks).toBe(6);
});

test('one that is not seen looks once, and goes on only where there is something to watch over', async () => {
  model.setRates(RATES);
  await world.pass(100);
  expect(world.looks).toBe(1);
  world.jobs = [job('a')];
  await model.refresh();
  await world.pass(60);
  expect(world.looks).toBe(6);
});

test('nothing is asked while the page is hidden, or when it is off', async () => {
  world.away = true;
  model.setSeen(true);
  model.setRates(RATES);
  await world.pass(10);
  expect(world.looks).toBe(0);
  world.away = false;
  await world.pass(2);
  expect(world.looks).toBe(1);
  model.setRates({ ...RATES, on: false });
  await world.pass(100);
  expect(world.looks).toBe(1);
});

test('what was there at first is no news; what comes, stalls and goes is', async () => {
  const told: string[] = [];
  model.told.connect((_, n) => told.push(n.text));
  world.jobs = [job('a')];
  await model.refresh();
  world.jobs = [job('a'), job('b')];
  await model.refresh();
  world.jobs = [job('a', { state: { code: 'stalled', words: 'stalled: no step', since_s: 0 } })];
  await model.refresh();
  expect(told).toEqual(['b.py has appeared', 'a.py: stalled: no step', 'b.py has ended']);
});

test('a failed look keeps what was known, and says why', async () => {
  world.jobs = [job('a')];
  await model.refresh();
  world.failing = Object.assign(new Error('no answer'), { nextStep: 'restart' });
  await model.refresh();
  expect(model.problem).toEqual({ message: 'no answer', nextStep: 'restart' });
  expect(model.find('a')).toBeDefined();
  world.failing = null;
  await model.refresh();
  expect(model.problem).toBeNull();
});

test('two who ask at once share one look', async () => {
  await Promise.all([model.refresh(), model.refresh()]);
  expect(world.looks).toBe(1);
});
