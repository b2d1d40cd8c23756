// The JupyterLab plugin: tables of results are put in order, filtered, and stay so when they are drawn anew.

import { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { SORTS } from './markup';
import { recall } from './memory';
import { Table } from './table';

/** The animation by which the style sheet (style/tables.css) tells that a table, or what may be folded round one, is displayed. */
const APPEARED = 'traindbg-appeared';

/** Takes over each table as it is first displayed, wherever in the page that is, and unfolds those that were open before. */
export function takeOver(page: Document): void {
  const known = new WeakSet<Element>();
  page.addEventListener('animationstart', event => {
    const node = event.target;
    if (event.animationName !== APPEARED) {
      return;
    }
    if (node instanceof HTMLDetailsElement) {
      node.open ||= [...node.querySelectorAll<HTMLTableElement>(SORTS)].some(table => recall(table)?.open);
    } else if (node instanceof HTMLTableElement && !known.has(node)) {
      known.add(node);
      new Table(node);
    }
  });
}

const tables: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-traindbg:tables',
  description: 'Tables of results can be sorted and filtered.',
  autoStart: true,
  activate: () => takeOver(document)
};

export default tables;
