// The JupyterLab plugin: links of results open the place or the page that they name.

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IEditorServices } from '@jupyterlab/codeeditor';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Api } from '../panel/api';
import { followLinks } from './follow';
import { Lab } from './lab';
import { Opener } from './open';

const links: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-traindbg:links',
  description: 'Links of results open files, cells and pages.',
  autoStart: true,
  optional: [IEditorServices, IRenderMimeRegistry],
  activate: (app: JupyterFrontEnd, editors: IEditorServices | null, registry: IRenderMimeRegistry | null) => {
    const opener = new Opener(new Lab(app, new Api(app.serviceManager.serverSettings), editors, registry));
    followLinks(document, goal => void opener.open(goal));
  }
};

export default links;
