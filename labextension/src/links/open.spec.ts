import { CodeEditor } from '@jupyterlab/codeeditor';
import { Opening } from '../panel/api';
import { hash } from './cells';
import { Desk, Document, Opener } from './open';

/** An editor that keeps what is selected in it. */
class Editor {
  selected: [number, number, number] | null = null;
  revealed: unknown = null;

  constructor(private readonly text: string) {}

  get lineCount(): number {
    return this.text.split('\n').length;
  }

  getLine(line: number): string | undefined {
    return this.text.split('\n')[line];
  }

  setSelection({ start, end }: CodeEditor.IRange): void {
    this.selected = [start.line, start.column, end.column];
  }

  revealSelection(_: unknown, options: unknown): void {
    this.revealed = options;
  }
}

const asEditor = (editor: Editor): CodeEditor.IEditor => editor as unknown as CodeEditor.IEditor;

/** A notebook whose cells come into being when they are scrolled to. */
class Notebook {
  activeCellIndex = 0;
  widgets: { ready: Promise<void>; editor: Editor }[];
  model: { cells: object[] };
  done: string[] = [];

  constructor(cells: { source: string; executionCount?: number | null; executionState?: string }[]) {
    this.model = { cells: cells.map(({ source, ...more }) => ({ ...more, sharedModel: { getSource: () => source } })) };
    this.widgets = cells.map(({ source }) => ({ ready: Promise.resolve(), editor: new Editor(source) }));
  }

  deselectAll(): void {
    this.done.push('deselected');
  }

  activate(): void {
    this.done.push('activated');
  }

  async scrollToItem(index: number): Promise<void> {
    this.done.push(`scrolled to ${index}`);
    throw new Error('Scrolling to a new item is requested.');
  }
}

class Small implements Desk {
  readonly asked: string[] = [];
  readonly shown: string[] = [];
  readonly warned: string[] = [];
  readonly editor = new Editor('one\n  two\nthree');
  content: object = { editor: this.editor };

  constructor(private readonly answer: Opening | Error) {}

  async place(file: string): Promise<Opening> {
    this.asked.push(file);
    if (this.answer instanceof Error) {
      throw this.answer;
    }
    return this.answer;
  }

  async page(reference: string): Promise<{ title: string; markdown: string }> {
    this.asked.push(reference);
    return { title: 'cuda_oom', markdown: '## cuda_oom' };
  }

  async document(path: string): Promise<Document> {
    this.shown.push(path);
    return { context: { path, ready: Promise.resolve() }, content: this.content };
  }

  source(...said: [string, string, string]): CodeEditor.IEditor {
    this.shown.push(...said);
    return asEditor(this.editor);
  }

  markdown(...said: string[]): void {
    this.shown.push(...said);
  }

  warn(...said: string[]): void {
    this.warned.push(...said);
  }
}

const FILE = '/home/ada/train.py';

test('a file of the directory is opened, and its line selected', async () => {
  const desk = new Small({ opens: 'file', path: 'ada/train.py' });
  await new Opener(desk).open({ file: FILE, line: 2, cell: null });
  expect([desk.asked, desk.shown, desk.warned]).toEqual([[FILE], ['ada/train.py'], []]);
  expect(desk.editor.selected).toEqual([1, 0, 5]);
  expect(desk.editor.revealed).toEqual({ block: 'center' });
  await new Opener(desk).open({ file: FILE, line: 99, cell: null });
  expect(desk.editor.selected).toEqual([2, 0, 5]);
});

test('what is shown without an editor is shown', async () => {
  const desk = new Small({ opens: 'file', path: 'report/index.html' });
  desk.content = {};
  await new Opener(desk).open({ file: '/home/ada/report/index.html', line: 1, cell: null });
  expect([desk.shown, desk.warned]).toEqual([['report/index.html'], []]);
});

test('a source elsewhere is shown as text, a page as a page', async () => {
  const desk = new Small({ opens: 'text', name: 'threading.py', text: 'one\ntwo' });
  await new Opener(desk).open({ file: '/usr/lib/threading.py', line: 3, cell: null });
  expect(desk.shown.splice(0)).toEqual(['/usr/lib/threading.py', 'threading.py', 'one\ntwo']);
  expect(desk.editor.selected).toEqual([2, 0, 5]);
  await new Opener(desk).open({ page: 'docs/failures.md#cuda_oom' });
  expect(desk.shown).toEqual(['docs/failures.md#cuda_oom', 'cuda_oom', '## cuda_oom']);
});

test('a cell becomes the active one, and its line is selected', async () => {
  const desk = new Small({ opens: 'notebook', path: 'ada/train.ipynb' });
  const notebook = new Notebook([
    { source: 'import torch', executionCount: 3 },
    { source: '# Words' },
    { source: 'step()\nwait()', executionCount: null, executionState: 'running' }
  ]);
  desk.content = notebook;
  await new Opener(desk).open({ file: `/tmp/ipykernel_77/${hash('step()\nwait()')}.py`, line: 2, cell: 4 });
  expect(notebook.activeCellIndex).toBe(2);
  expect(notebook.widgets[2].editor.selected).toEqual([1, 0, 6]);
  expect(notebook.done).toEqual(['deselected', 'scrolled to 2', 'activated']);
  await new Opener(desk).open({ file: '/tmp/ipykernel_77/1.py', line: 1, cell: 3 });
  expect([notebook.activeCellIndex, desk.warned]).toEqual([0, []]);
});

test('a cell that is gone is told', async () => {
  const desk = new Small({ opens: 'notebook', path: 'ada/train.ipynb' });
  desk.content = new Notebook([{ source: 'x', executionCount: 5, executionState: 'idle' }]);
  const opener = new Opener(desk);
  await opener.open({ file: '/tmp/ipykernel_77/1.py', line: 1, cell: 4 });
  await opener.open({ file: '/tmp/ipykernel_77/1.py', line: 1, cell: null });
  expect(desk.warned[0]).toBe('In [4] is not in train.ipynb any more');
  expect(desk.warned[1]).toContain('run it again');
  expect(desk.warned[2]).toBe('The cell is not in train.ipynb any more');
});

test('a refusal is told with what to do, and the link can be tried again', async () => {
  const desk = new Small(Object.assign(new Error('it cannot be read'), { nextStep: 'look on its machine' }));
  const opener = new Opener(desk);
  await opener.open({ file: FILE, line: 1, cell: null });
  expect(desk.warned).toEqual(['it cannot be read', 'look on its machine']);
  await opener.open({ file: FILE, line: 1, cell: null });
  expect(desk.asked.length).toBe(2);
});

test('two quick clicks are one', async () => {
  const desk = new Small({ opens: 'file', path: 'ada/train.py' });
  const opener = new Opener(desk);
  await Promise.all([1, 1, 2].map(line => opener.open({ file: FILE, line, cell: null })));
  expect(desk.asked.length).toBe(2);
});
