// The widget in the page: state line, buttons, tabs; which view is seen, and the messages to and from each.

import { language, speak, text } from '../common/language';
import { StateLine, JobState } from './stateLine';
import { Tabs } from './tabs';
import { Channel, Mounted, View } from './view';
import * as kept from './kept';

export interface WidgetModel {
  get(name: string): any;
  on(name: string, callback: (...args: any[]) => void): void;
  off(name: string, callback?: (...args: any[]) => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
}

interface About {
  id: string;
  /** The kernel's; none in a notebook of an older version. */
  language?: string;
  job: string;
  views: string[];
  view: string;
  rate_hz: number;
  paused: boolean;
  stopped: boolean;
}

const ALIVE_MS = 10_000;
const WELCOME_MS = 4_000;
const SILENT_MS = 45_000;
const GONE = (): string =>
  text('The kernel of this view has ended. What was seen last is below; run the cell again to go on.');
const SILENT = (): string => text('The kernel has not answered for a while. What was seen last is below.');
const DEAF = (): string =>
  text(
    'No kernel hears this page now. Where one is busy in a cell, the curves move on and the buttons act when the cell ends (ipykernel 7.1 or newer and JupyterLab 4.4 or newer hear them at once).'
  );

export function mountWatch(model: WidgetModel, el: HTMLElement, known: View[]): () => void {
  speak((model.get('about') as About).language); // this bundle is the widget's own: see speak
  const watch = new Watch(model, el, known);
  return () => watch.dispose();
}

class Watch {
  private page = randomName();
  private root = document.createElement('div');
  private line = new StateLine();
  private note = document.createElement('p');
  private picture = document.createElement('img');
  private pause = button(text('Pause'), 'tdb-pause');
  private tabs: Tabs;
  private mounted: Record<string, Mounted> = {};
  private listeners: Record<string, Set<(content: any, buffers: DataView[]) => void>> = {};
  private views: View[];
  private onScreen = true;
  private shown = '';
  private welcomed = false;
  private gone = false;
  private heardAt = 0;
  private timers: number[] = [];
  private observer: IntersectionObserver | null = null;

  constructor(
    private model: WidgetModel,
    el: HTMLElement,
    known: View[]
  ) {
    const about = this.about;
    this.views = about.views
      .map(name => known.find(view => view.name === name))
      .filter((view): view is View => view !== undefined);
    this.root.className = 'tdb-watch';
    this.root.dataset.widget = about.id;
    this.root.lang = language();
    this.root.setAttribute('role', 'region');
    this.root.setAttribute('aria-label', text('Watch of {job}', { job: about.job }));
    this.tabs = new Tabs(this.views, `tdb-${this.page}`, text('Views of the job'), name => this.onSelect(name));
    this.note.className = 'tdb-note';
    this.note.setAttribute('role', 'status');
    this.note.hidden = true;
    this.picture.className = 'tdb-picture';
    this.picture.hidden = true;
    this.build(about);
    el.append(this.root);
    this.listen();
    this.tell({ kind: 'hello' });
    this.timers.push(window.setTimeout(() => this.lateWelcome(), WELCOME_MS));
    this.timers.push(window.setInterval(() => this.sayAlive(), ALIVE_MS));
    const wanted = kept.get(about.id, 'view');
    this.tabs.select(typeof wanted === 'string' && wanted in this.tabs.panels ? wanted : about.view);
  }

  dispose(): void {
    this.hidePicture();
    this.timers.forEach(timer => window.clearTimeout(timer));
    this.observer?.disconnect();
    document.removeEventListener('visibilitychange', this.onVisibility);
    this.model.off('msg:custom', this.onMessage);
    this.model.off('change:state', this.onState);
    this.model.off('change:about', this.onAbout);
    Object.values(this.mounted).forEach(view => view.dispose());
    this.tell({ kind: 'left' });
    this.root.remove();
  }

  private get about(): About {
    return this.model.get('about') as About;
  }

  private build(about: About): void {
    const head = document.createElement('div');
    head.className = 'tdb-head';
    const job = document.createElement('span');
    job.className = 'tdb-job';
    job.textContent = text('job {job}', { job: about.job });
    job.title = about.job;
    head.append(this.line.node, job, this.pause);
    this.pause.addEventListener('click', () => this.tell({ kind: 'pause', paused: !this.about.paused }));
    this.root.append(head, this.note, this.picture, this.tabs.list, ...Object.values(this.tabs.panels));
    this.onState();
    this.onAbout();
  }

  private listen(): void {
    this.model.on('msg:custom', this.onMessage);
    this.model.on('change:state', this.onState);
    this.model.on('change:about', this.onAbout);
    document.addEventListener('visibilitychange', this.onVisibility);
    this.root.addEventListener('traindbg:open', event => {
      this.tabs.select((event as CustomEvent).detail?.view ?? '', true);
    });
    if (typeof IntersectionObserver !== 'undefined') {
      this.observer = new IntersectionObserver(entries => {
        this.onScreen = entries[entries.length - 1].isIntersecting;
        this.follow();
      });
      this.observer.observe(this.root);
    }
  }

  private onSelect(name: string): void {
    kept.put(this.about.id, 'view', name);
    if (!(name in this.mounted)) {
      const view = this.views.find(v => v.name === name);
      if (view) {
        this.mounted[name] = view.mount(this.tabs.panels[name], this.channel(name));
      }
    }
    this.follow();
  }

  /** Show the view that is seen now, hide the one that was, and say so to the kernel. */
  private follow(): void {
    const seen = this.onScreen && document.visibilityState !== 'hidden' ? this.tabs.selected : '';
    if (seen === this.shown) {
      return;
    }
    this.mounted[this.shown]?.hide();
    this.shown = seen;
    this.tell({ kind: 'shown', name: seen || null });
    this.mounted[seen]?.show();
  }

  private channel(view: string): Channel {
    const callbacks = (this.listeners[view] = new Set());
    return {
      send: (content, buffers) => this.post(view, content, buffers),
      onMessage: callback => {
        callbacks.add(callback);
        return () => callbacks.delete(callback);
      }
    };
  }

  private post(view: string, body: object, buffers: ArrayBuffer[] = []): void {
    if (this.gone) {
      return;
    }
    try {
      this.model.send({ view, from: this.page, body }, undefined, buffers);
    } catch {
      this.gone = true; // there is no way back: a comm that is closed stays so
      this.pause.disabled = true;
      this.showNote(GONE());
    }
  }

  private sayAlive(): void {
    if (this.shown !== '') {
      this.tell({ kind: 'alive' });
      const silent = this.welcomed && Date.now() - this.heardAt > SILENT_MS;
      if (silent) {
        this.showNote(SILENT());
      }
    }
  }

  private tell(body: object): void {
    this.post('', body);
  }

  private onMessage = (message: any, buffers: DataView[]): void => {
    if (message?.to && message.to !== this.page) {
      return;
    }
    this.heardAt = Date.now();
    this.hidePicture();
    if (this.note.textContent === SILENT()) {
      this.showNote('');
    }
    if (message?.view === '') {
      const answer = message.to === this.page; // what is said to all pages does not show that the kernel hears this one
      if (answer && !this.welcomed && !this.about.stopped) {
        this.showNote('');
      }
      this.welcomed = this.welcomed || answer;
      if (message.body?.kind === 'state') {
        this.line.show(message.body as JobState);
      }
      return;
    }
    this.listeners[message?.view]?.forEach(callback => callback(message.body, buffers ?? []));
  };

  private onState = (): void => {
    this.line.show(this.model.get('state') as JobState);
  };

  private onAbout = (): void => {
    const { paused, stopped } = this.about;
    this.pause.textContent = paused ? text('Resume') : text('Pause');
    this.pause.title = paused
      ? text('Show what has come meanwhile, and go on')
      : text('Let the view stand still; the job goes on');
    this.pause.setAttribute('aria-pressed', String(paused));
    this.pause.disabled = stopped;
    this.root.classList.toggle('tdb-paused', paused);
    this.root.classList.toggle('tdb-stopped', stopped);
    if (stopped) {
      this.showNote(text('This watch was stopped; what it saw is below.'));
    }
  };

  private onVisibility = (): void => {
    if (document.visibilityState === 'hidden') {
      this.tell({ kind: 'away' });
    }
    this.follow();
  };

  private lateWelcome(): void {
    if (!this.welcomed) {
      this.showNote(DEAF());
      this.showPicture();
    }
  }

  /** What was seen last, where nothing has come from a kernel: a page that was exported, or is read without one. */
  private showPicture(): void {
    const drawn = this.model.get('picture') as DataView | undefined;
    if (this.heardAt === 0 && drawn && drawn.byteLength > 0) {
      const bytes = drawn.buffer.slice(drawn.byteOffset, drawn.byteOffset + drawn.byteLength) as ArrayBuffer;
      this.picture.src = URL.createObjectURL(new Blob([bytes], { type: 'image/png' }));
      this.picture.alt = text('The last state: {words}', { words: (this.model.get('state') as JobState).words });
      this.picture.hidden = false;
    }
  }

  private hidePicture(): void {
    if (!this.picture.hidden) {
      URL.revokeObjectURL(this.picture.src);
      this.picture.hidden = true;
    }
  }

  private showNote(words: string): void {
    this.note.textContent = words;
    this.note.hidden = words === '';
  }
}

function button(label: string, className: string): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = `tdb-button ${className}`;
  made.textContent = label;
  return made;
}

function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(8)), byte => byte.toString(16).padStart(2, '0')).join('');
}
