// What JupyterLab loads.

import links from './links';
import panel from './panel';
import tables from './tables';

export default [panel, tables, links];
