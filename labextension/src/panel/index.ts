// The JupyterLab plugin: the side panel, the status-bar item, and the commands behind both.

import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { language, text } from '../common/language';
import { Api } from './api';
import { Commands, VERBS } from './commands';
import { traindbgIcon } from './icon';
import { JobsModel } from './model';
import { Notebooks } from './notebooks';
import { JobsPanel } from './panel';
import { JobsStatus } from './status';

const ID = 'jupyter-traindbg:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: "The training jobs on the server's host.",
  autoStart: true,
  optional: [ICommandPalette, ISettingRegistry, INotebookTracker, IStatusBar, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    tracker: INotebookTracker | null,
    statusBar: IStatusBar | null,
    restorer: ILayoutRestorer | null
  ): void => {
    const api = new Api(app.serviceManager.serverSettings);
    const model = new JobsModel({
      look: () => api.jobs(),
      hidden: () => document.visibilityState === 'hidden',
      later: (run, seconds) => {
        const timer = window.setTimeout(run, seconds * 1000);
        return () => window.clearTimeout(timer);
      }
    });
    const commands = new Commands(app, api, model, new Notebooks(app, tracker));
    const panel = new JobsPanel({
      model,
      verbs: VERBS(model),
      run: (command, target) => void app.commands.execute(command, { target }),
      busy: target => commands.busy(target)
    });
    commands.changed.connect(() => panel.update());
    const show = (): void => app.shell.activateById(panel.id);
    app.shell.add(panel, 'left', { rank: 450, type: text('Training jobs') });
    restorer?.add(panel, panel.id);

    app.commands.addCommand('traindbg:show', {
      label: text('Show Training Jobs'),
      icon: traindbgIcon,
      execute: show
    });
    app.commands.addCommand('traindbg:refresh', {
      label: text('Look for Training Jobs Now'),
      execute: () => model.refresh()
    });
    // The palette finds what begins with a Latin letter, and no other.
    const category = language() === 'en' ? text('Training jobs') : `traindbg · ${text('Training jobs')}`;
    for (const command of ['traindbg:show', 'traindbg:refresh', ...commands.register()]) {
      palette?.addItem({ command, category });
    }

    const status = new JobsStatus(model, show);
    let inBar = false;
    statusBar?.registerStatusItem(ID, { item: status, align: 'left', rank: 20, isActive: () => inBar });

    let notify = true;
    model.told.connect((_, news) => {
      if (notify && news.bad) {
        Notification.warning(news.text, { autoClose: false, actions: [{ label: text('Show'), callback: show }] });
      }
    });

    const apply = (value: ISettingRegistry.ISettings): void => {
      const all = value.composite as {
        enabled: boolean;
        refreshSeconds: number;
        backgroundSeconds: number;
        notifications: boolean;
        statusBar: boolean;
      };
      inBar = all.statusBar;
      status.setHidden(!inBar);
      notify = all.notifications;
      model.setRates({ on: all.enabled, seen_s: all.refreshSeconds, unseen_s: all.backgroundSeconds });
    };
    const defaults = (): void => {
      inBar = true;
      model.setRates({ on: true, seen_s: 2, unseen_s: 15 });
    };
    if (settings === null) {
      defaults();
      return;
    }
    settings.load(ID).then(
      loaded => {
        apply(loaded);
        loaded.changed.connect(apply);
      },
      (reason: Error) => {
        console.warn(`jupyter-traindbg: its settings could not be read (${reason.message}); the defaults are used`);
        defaults();
      }
    );
  }
};

export default plugin;
