// JupyterLab as the place where links open what they name: its own documents, and tabs for what is no file of the server's.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, MainAreaWidget, Notification, showDialog } from '@jupyterlab/apputils';
import { CodeEditor, CodeEditorWrapper, IEditorServices } from '@jupyterlab/codeeditor';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { pythonIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import { text } from '../common/language';
import { Api } from '../panel/api';
import { traindbgIcon } from '../panel/icon';
import { Desk, Document } from './open';

/** So much of a notification is shown. */
const MOST_SHOWN = 140;

export class Lab implements Desk {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly api: Api,
    private readonly editors: IEditorServices | null,
    private readonly registry: IRenderMimeRegistry | null
  ) {}

  place(file: string): ReturnType<Desk['place']> {
    return this.api.place(file);
  }

  page(reference: string): ReturnType<Desk['page']> {
    return this.api.page(reference);
  }

  async document(path: string): Promise<Document> {
    const { commands, shell } = this.app;
    const tabs = [...shell.widgets('main')] as (Widget & Partial<Document>)[];
    const there = tabs.find(tab => tab.context?.path === path);
    if (there === undefined) {
      return commands.execute('docmanager:open', { path });
    }
    shell.activateById(there.id);
    return there as Document;
  }

  source(file: string, name: string, code: string): CodeEditor.IEditor {
    const lack = (): string => text('this front end has no editor');
    const tab = this.tab(`traindbg-text-${file}`, () => textTab(needed(this.editors, lack), name, file));
    const { editor, model } = tab.content as CodeEditorWrapper;
    if (model.sharedModel.getSource() !== code) {
      model.sharedModel.setSource(code);
      editor.clearHistory(); // a reader's Ctrl+Z would take it out again
    }
    return editor;
  }

  markdown(reference: string, title: string, markdown: string): void {
    const registry = needed(this.registry, () => text('this front end shows no Markdown'));
    this.tab(`traindbg-page-${reference}`, () => pageTab(registry, title, reference, markdown));
  }

  warn(message: string, next: string): void {
    const words = next ? text('{cause}; {next_step}', { cause: message, next_step: next }) : message;
    const body = {
      title: text('There is nothing to open'),
      body: words,
      buttons: [Dialog.okButton({ label: text('OK') })]
    };
    const all = { label: text('Show all'), callback: () => void showDialog(body) };
    Notification.warning(words, { autoClose: 15000, actions: words.length > MOST_SHOWN ? [all] : [] });
  }

  /** Bring the tab called `id` to the front; `make` makes it where it is not there. */
  private tab(id: string, make: () => MainAreaWidget): MainAreaWidget {
    const { shell } = this.app;
    const tabs = [...shell.widgets('main'), ...shell.widgets('right')] as MainAreaWidget[];
    let tab = tabs.find(there => there.id === id);
    if (tab === undefined) {
      tab = make();
      tab.id = id;
      tab.title.closable = true;
      shell.add(tab, 'main');
      if (!tab.isAttached) {
        shell.add(tab, 'right'); // in Notebook 7 there is room for one document only
      }
    }
    shell.activateById(id);
    return tab;
  }
}

function textTab(services: IEditorServices, name: string, path: string): MainAreaWidget {
  const content = new CodeEditorWrapper({
    factory: services.factoryService.newDocumentEditor,
    model: new CodeEditor.Model({ mimeType: services.mimeTypeService.getMimeTypeByFilePath(name) }),
    editorOptions: { config: { readOnly: true, lineNumbers: true, searchWithCM: true } }
  });
  content.addClass('jp-traindbg-text');
  return titled(content, text('{name} (read only)', { name }), path, pythonIcon);
}

function pageTab(registry: IRenderMimeRegistry, title: string, reference: string, markdown: string): MainAreaWidget {
  const content = registry.createRenderer('text/markdown');
  void content.renderModel(registry.createModel({ data: { 'text/markdown': markdown } }));
  const tab = titled(content, title, reference, traindbgIcon);
  content.addClass('jp-traindbg-page');
  content.node.tabIndex = 0;
  content.node.setAttribute('role', 'document');
  content.node.setAttribute('aria-label', title);
  return tab;
}

function titled(content: Widget, label: string, caption: string, icon: typeof pythonIcon): MainAreaWidget {
  const tab = new MainAreaWidget({ content });
  Object.assign(tab.title, { label, caption, icon });
  return tab;
}

function needed<Service>(service: Service | null, lack: () => string): Service {
  if (service === null) {
    throw new Error(lack());
  }
  return service;
}
