// What a link opens, as the server says: a file, a cell of a notebook, a source that is only read, a page of docs.

import { CodeEditor } from '@jupyterlab/codeeditor';
import { Notebook } from '@jupyterlab/notebook';
import { text } from '../common/language';
import { Opening, Refused } from '../panel/api';
import { indexOf } from './cells';
import { selectLine } from './line';
import { Goal, Place } from './markup';

/** What a file is opened in. It has an editor, unless it is seen as a picture, a table, a page. */
export interface Document {
  context: { path: string; ready: Promise<void> };
  content: { editor?: CodeEditor.IEditor };
}

/** Where things are asked for, opened and said. */
export interface Desk {
  place(file: string): Promise<Opening>;
  page(reference: string): Promise<{ title: string; markdown: string }>;
  /** Show a file of the server's directory. */
  document(path: string): Promise<Document>;
  /** Show a text that cannot be changed, in the tab that is there for `file`. */
  source(file: string, name: string, code: string): CodeEditor.IEditor;
  /** Show a page of docs. */
  markdown(reference: string, title: string, markdown: string): void;
  warn(message: string, next: string): void;
}

/** What the model of a cell has where it is a code cell. */
interface CodeCellModel {
  executionCount?: number | null;
  executionState?: string;
}

export class Opener {
  private readonly underWay = new Set<string>();

  constructor(private readonly desk: Desk) {}

  /** Open it, or say why not. A second click meanwhile is the same one. */
  async open(goal: Goal): Promise<void> {
    const key = JSON.stringify(goal);
    if (this.underWay.has(key)) {
      return;
    }
    this.underWay.add(key);
    try {
      await ('page' in goal ? this.page(goal.page) : this.place(goal));
    } catch (error) {
      const { message, nextStep } = error as Partial<Refused>;
      this.desk.warn(message || String(error), nextStep ?? '');
    } finally {
      this.underWay.delete(key);
    }
  }

  private async page(reference: string): Promise<void> {
    const { title, markdown } = await this.desk.page(reference);
    this.desk.markdown(reference, title, markdown);
  }

  private async place(place: Place): Promise<void> {
    const answer = await this.desk.place(place.file);
    if (answer.opens === 'text') {
      selectLine(this.desk.source(place.file, answer.name, answer.text), place.line);
      return;
    }
    const { context, content } = await this.desk.document(answer.path);
    await context.ready;
    if (answer.opens === 'notebook') {
      await this.cell(content as Notebook, answer.path, place);
    } else if (content.editor) {
      selectLine(content.editor, place.line);
    }
  }

  private async cell(notebook: Notebook, path: string, place: Place): Promise<void> {
    const cells = [...notebook.model!.cells].map(model => {
      const { executionCount = null, executionState } = model as CodeCellModel;
      return { source: model.sharedModel.getSource(), count: executionCount, running: executionState === 'running' };
    });
    const index = indexOf(cells, place);
    if (index < 0) {
      const notebook = path.split('/').pop() ?? '';
      const gone =
        place.cell === null
          ? text('The cell is not in {notebook} any more', { notebook })
          : text('In [{n}] is not in {notebook} any more', { n: place.cell, notebook });
      this.desk.warn(gone, text('it was changed or deleted since: run it again, and look anew'));
      return;
    }
    notebook.deselectAll();
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, 'center').catch(() => undefined); // JupyterLab itself scrolls to the active cell
    await notebook.widgets[index].ready;
    selectLine(notebook.widgets[index].editor!, place.line);
    notebook.activate(); // keys are for that cell now, not for the link
  }
}
