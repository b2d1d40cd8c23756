import { mountWatch, WidgetModel } from './container';
import { Channel, View } from './view';

class Model implements WidgetModel {
  sent: any[] = [];
  callbacks: Record<string, ((...args: any[]) => void)[]> = {};
  closed = false;
  values: Record<string, any> = {
    about: {
      id: 'w1',
      job: '<b>job</b>',
      views: ['one', 'two'],
      view: 'one',
      rate_hz: 2,
      paused: false,
      stopped: false
    },
    state: { code: 'training', words: 'training', step: 7, at: 'step 7 since the attach' }
  };
  get(name: string): any {
    return this.values[name];
  }
  set(name: string, value: any): void {
    this.values[name] = value;
    this.fire(`change:${name}`);
  }
  on(name: string, callback: (...args: any[]) => void): void {
    (this.callbacks[name] ??= []).push(callback);
  }
  off(name: string, callback?: (...args: any[]) => void): void {
    this.callbacks[name] = (this.callbacks[name] ?? []).filter(other => other !== callback);
  }
  send(content: unknown): void {
    if (this.closed) {
      throw new Error('the comm is closed');
    }
    this.sent.push(content);
  }
  fire(name: string, ...args: any[]): void {
    (this.callbacks[name] ?? []).forEach(callback => callback(...args));
  }
}

function scene() {
  const model = new Model();
  const calls: string[] = [];
  const channels: Record<string, Channel> = {};
  const view = (name: string): View => ({
    name,
    label: name,
    mount: (_root, channel) => {
      channels[name] = channel;
      calls.push(`mount ${name}`);
      return {
        show: () => calls.push(`show ${name}`),
        hide: () => calls.push(`hide ${name}`),
        dispose: () => calls.push(`dispose ${name}`)
      };
    }
  });
  const el = document.createElement('div');
  document.body.replaceChildren(el);
  const dispose = mountWatch(model, el, [view('two'), view('one'), view('unknown to Python')]);
  return { model, calls, channels, el, dispose, page: model.sent[0].from as string };
}

function last<T>(of: T[]): T {
  return of[of.length - 1];
}

beforeEach(() => window.sessionStorage.clear());

test('tabs come in the order that Python says; a view is mounted when it is first chosen, and only one is shown', () => {
  const { calls, el, model } = scene();
  const tabs = [...el.querySelectorAll<HTMLElement>('[role=tab]')];
  expect(tabs.map(tab => tab.textContent)).toEqual(['one', 'two']);
  expect(calls).toEqual(['mount one', 'show one']);
  tabs[0].dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
  expect(calls.slice(2)).toEqual(['mount two', 'hide one', 'show two']);
  expect(tabs.map(tab => tab.getAttribute('aria-selected'))).toEqual(['false', 'true']);
  expect(tabs.map(tab => tab.tabIndex)).toEqual([-1, 0]);
  expect(last(model.sent).body).toEqual({ kind: 'shown', name: 'two' });
});

test('another tab is opened by an event from within, and remembered when the widget is drawn anew', () => {
  const { el, model } = scene();
  const inside = el.querySelector('[role=tabpanel]') as HTMLElement;
  inside.dispatchEvent(new CustomEvent('traindbg:open', { bubbles: true, detail: { view: 'two' } }));
  const again = document.createElement('div');
  mountWatch(model, again, [{ name: 'two', label: 'two', mount: () => ({ show() {}, hide() {}, dispose() {} }) }]);
  expect(again.querySelector('[aria-selected=true]')?.textContent).toBe('two');
});

test('a message reaches the view it is for, and only in the page it is for', () => {
  const { model, channels, page } = scene();
  const got: any[] = [];
  channels.one.onMessage(content => got.push(content));
  model.fire('msg:custom', { view: 'one', to: null, body: 1 }, []);
  model.fire('msg:custom', { view: 'one', to: page, body: 2 }, []);
  model.fire('msg:custom', { view: 'one', to: 'another page', body: 3 }, []);
  model.fire('msg:custom', { view: 'two', to: null, body: 4 }, []);
  expect(got).toEqual([1, 2]);
});

test('the state is shown each time and read aloud only when it becomes another one', () => {
  const { model, el } = scene();
  const aloud = el.querySelector('[role=status][aria-live=polite]') as HTMLElement;
  model.set('state', { code: 'stalled', words: 'stalled for 12 s', step: 9, at: 'step 9 since the attach' });
  model.fire('msg:custom', {
    view: '',
    to: null,
    body: { kind: 'state', code: 'stalled', words: 'stalled for 13 s', step: 9, at: 'step 9 since the attach' }
  });
  expect(el.querySelector('.tdb-state-words')?.textContent).toBe('stalled for 13 s');
  expect(aloud.textContent).toBe('stalled for 12 s');
});

test('names are text', () => {
  const { el } = scene();
  expect(el.querySelector('b')).toBeNull();
  expect(el.querySelector('.tdb-job')?.textContent).toContain('<b>job</b>');
});

test('a kernel that has gone is told of, and nothing more is sent', () => {
  const { model, el } = scene();
  model.closed = true;
  (el.querySelector('.tdb-pause') as HTMLElement).click();
  expect(el.querySelector('.tdb-note')?.textContent).toContain('kernel of this view has ended');
  expect((el.querySelector('.tdb-pause') as HTMLButtonElement).disabled).toBe(true);
});

test('pause asks for what is not so', () => {
  const { model, el } = scene();
  const pause = el.querySelector('.tdb-pause') as HTMLElement;
  pause.click();
  expect(last(model.sent).body).toEqual({ kind: 'pause', paused: true });
  model.set('about', { ...model.values.about, paused: true });
  expect(pause.textContent).toBe('Resume');
  pause.click();
  expect(last(model.sent).body).toEqual({ kind: 'pause', paused: false });
});

test('leaving takes everything along', () => {
  const { model, el, calls, dispose } = scene();
  dispose();
  expect(el.children.length).toBe(0);
  expect(last(calls)).toBe('dispose one');
  expect(last(model.sent).body).toEqual({ kind: 'left' });
  expect(Object.values(model.callbacks).flat()).toEqual([]);
});

test('where no kernel hears the page, it says so and shows the last picture until something comes', () => {
  jest.useFakeTimers();
  URL.createObjectURL = () => 'blob:picture';
  URL.revokeObjectURL = () => undefined;
  const { model, el, page } = scene();
  model.values.picture = new DataView(new ArrayBuffer(8));
  const picture = el.querySelector('.tdb-picture') as HTMLImageElement;
  jest.advanceTimersByTime(5000);
  expect(el.querySelector('.tdb-note')?.textContent).toContain('No kernel hears this page');
  expect(picture.hidden).toBe(false);
  expect(picture.alt).toBe('The last state: training');
  const state = { kind: 'state', code: 'training', words: 'training', step: 8, at: 'step 8 since the attach' };
  model.fire('msg:custom', { view: '', body: state });
  expect(picture.hidden).toBe(true);
  expect(el.querySelector('.tdb-note')?.textContent).toContain('No kernel hears this page');
  model.fire('msg:custom', { view: '', to: page, body: state });
  expect((el.querySelector('.tdb-note') as HTMLElement).hidden).toBe(true);
  jest.useRealTimers();
});
