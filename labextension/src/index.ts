// What JupyterLab loads.

import { PageConfig } from '@jupyterlab/coreutils';
import { speak } from './common/language';
import links from './links';
import panel from './panel';
import tables from './tables';

speak(PageConfig.getOption('traindbgLanguage')); // before a plugin is activated: labels of commands are said once

export default [panel, tables, links];
