// An ARIA tablist: one tab stop, arrow keys, Home and End; the panel follows the focus.

export interface Tab {
  name: string;
  label: string;
}

export class Tabs {
  readonly list = document.createElement('div');
  readonly panels: Record<string, HTMLElement> = {};
  selected = '';
  private buttons: Record<string, HTMLButtonElement> = {};

  constructor(
    private tabs: Tab[],
    prefix: string,
    label: string,
    private onSelect: (name: string) => void
  ) {
    this.list.className = 'tdb-tabs';
    this.list.setAttribute('role', 'tablist');
    this.list.setAttribute('aria-label', label);
    for (const tab of tabs) {
      const button = document.createElement('button');
      button.type = 'button';
      button.id = `${prefix}-tab-${tab.name}`;
      button.className = 'tdb-tab';
      button.textContent = tab.label;
      button.setAttribute('role', 'tab');
      button.setAttribute('aria-controls', `${prefix}-panel-${tab.name}`);
      button.addEventListener('click', () => this.select(tab.name));
      button.addEventListener('keydown', event => this.onKey(event, tab.name));
      this.buttons[tab.name] = button;
      this.list.append(button);
      const panel = document.createElement('div');
      panel.id = `${prefix}-panel-${tab.name}`;
      panel.className = 'tdb-panel';
      panel.setAttribute('role', 'tabpanel');
      panel.setAttribute('aria-labelledby', button.id);
      panel.hidden = true;
      this.panels[tab.name] = panel;
    }
  }

  select(name: string, focus = false): void {
    if (!(name in this.panels)) {
      return;
    }
    const changed = name !== this.selected;
    this.selected = name;
    for (const tab of this.tabs) {
      const here = tab.name === name;
      this.buttons[tab.name].setAttribute('aria-selected', String(here));
      this.buttons[tab.name].tabIndex = here ? 0 : -1;
      this.panels[tab.name].hidden = !here;
    }
    if (focus) {
      this.buttons[name].focus();
    }
    if (changed) {
      this.onSelect(name);
    }
  }

  private onKey(event: KeyboardEvent, name: string): void {
    const at = this.tabs.findIndex(tab => tab.name === name);
    const n = this.tabs.length;
    const to = { ArrowRight: (at + 1) % n, ArrowLeft: (at + n - 1) % n, Home: 0, End: n - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      event.stopPropagation(); // the notebook has its own ideas about these keys
      this.select(this.tabs[to].name, true);
    }
  }
}
