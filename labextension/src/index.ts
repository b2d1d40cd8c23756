// What JupyterLab loads.

import panel from './panel';
import tables from './tables';

export default [panel, tables];
