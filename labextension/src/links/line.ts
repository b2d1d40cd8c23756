// A line of an editor, selected so that it is seen.

import { CodeEditor } from '@jupyterlab/codeeditor';

/** JupyterLab's own takes where in the view it is to come; before 4.5 it takes no notice. */
type Reveal = (range: CodeEditor.IRange, options: { block: 'center' }) => void;

/** Select line `line`, counted from 1, and bring it to the middle; the last one where there are fewer. */
export function selectLine(editor: CodeEditor.IEditor, line: number): void {
  const at = Math.min(line, editor.lineCount) - 1;
  const range = { start: { line: at, column: 0 }, end: { line: at, column: editor.getLine(at)?.length ?? 0 } };
  editor.setSelection(range);
  (editor.revealSelection as Reveal)(range, { block: 'center' });
}
