// What a view of the live widget is: one tab here, and its other half in Python (jupyter_traindbg/widgets/view.py).

/** The way to the view's other half. */
export interface Channel {
  /** Plain JSON, and binary buffers beside it. */
  send(content: object, buffers?: ArrayBuffer[]): void;
  /** Called with what the other half sent to this page, or to all. Returns what ends that. */
  onMessage(callback: (content: any, buffers: DataView[]) => void): () => void;
}

/** A view in the page. `show` and `hide` follow the tab, the scrolling and the browser's own tab: no work while hidden. */
export interface Mounted {
  show(): void;
  hide(): void;
  dispose(): void;
}

export interface View {
  /** As in Python: `View.name`. */
  name: string;
  /** On the tab. */
  readonly label: string;
  mount(root: HTMLElement, channel: Channel): Mounted;
}
