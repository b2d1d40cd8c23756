// Cells in notebooks: the current one, or a new one.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { text } from '../common/language';
import { cell } from './jobs';

export type Where = 'current' | 'new';

/** What became of the cell: whether its kernel lacks the package. */
export interface Ran {
  missing: boolean;
}

export class Notebooks {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tracker: INotebookTracker | null
  ) {}

  /** Whether there is a notebook to put a cell into. */
  get current(): NotebookPanel | null {
    return this.tracker?.currentWidget ?? null;
  }

  /** Add a cell that attaches to `target` (and watches it), and run it. */
  async run(target: string, watch: boolean, where: Where): Promise<Ran> {
    const panel = (where === 'current' ? this.current : null) ?? (await this.create());
    await panel.context.ready;
    await panel.sessionContext.ready;
    this.app.shell.activateById(panel.id);
    const { content: notebook, sessionContext } = panel;
    // A notebook that attaches to its own kernel is in it already.
    const own = sessionContext.session?.kernel?.id;
    const source = cell(own !== undefined && target === `kernel:${own}` ? 'self' : target, watch);
    if (!isBlank(notebook.activeCell?.model.sharedModel.getSource()) || notebook.activeCell?.model.type !== 'code') {
      NotebookActions.insertBelow(notebook);
    }
    const active = notebook.activeCell;
    if (active === null) {
      throw new Error(text('the notebook has no cell to write into'));
    }
    active.model.sharedModel.setSource(source);
    await NotebookActions.run(notebook, sessionContext);
    const outputs = JSON.stringify(active.model.toJSON());
    return { missing: /"ename": ?"ModuleNotFoundError"/.test(outputs) && outputs.includes('traindbg') };
  }

  private async create(): Promise<NotebookPanel> {
    const specs = this.app.serviceManager.kernelspecs;
    await specs.ready;
    return this.app.commands.execute('notebook:create-new', { kernelName: specs.specs?.default });
  }
}

function isBlank(source: string | undefined): boolean {
  return source !== undefined && source.trim() === '';
}
