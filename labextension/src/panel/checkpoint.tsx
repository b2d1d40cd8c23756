// An emergency checkpoint: what will be written and where is shown and confirmed first; then how far it is; then what came of it.

import { Dialog, Notification, ReactWidget, showDialog } from '@jupyterlab/apputils';
import React from 'react';
import { text } from '../common/language';
import { Api, Plan, Refused, Saved } from './api';
import { planInWords, progress } from './plan';
import { woven } from './woven';

const ASK_EVERY_MS = 400;

class PlanBody extends ReactWidget implements Dialog.IBodyWidget<string> {
  private directory: string;

  constructor(
    private readonly job: string,
    private readonly plan: Plan
  ) {
    super();
    this.addClass('jp-traindbg-plan');
    this.directory = plan.directory;
  }

  getValue(): string {
    return this.directory;
  }

  protected override render(): React.ReactElement {
    return (
      <>
        <p>
          {woven(
            text("The state of {job} is written to a directory on the job's host. The training goes on afterwards.", {
              job: '{job}'
            }),
            { job: <strong>{this.job}</strong> }
          )}
        </p>
        <label>
          {text('Directory')}
          <input
            className="jp-mod-styled"
            spellCheck={false}
            defaultValue={this.directory}
            onChange={event => (this.directory = event.target.value)}
          />
        </label>
        <dl>
          {planInWords(this.plan).map(([term, words]) => (
            <React.Fragment key={term}>
              <dt>{term}</dt>
              <dd>{words}</dd>
            </React.Fragment>
          ))}
        </dl>
      </>
    );
  }
}

/** Ask, write, wait. The result, or null where the person thought better of it. Throws `Refused`. */
export async function checkpoint(api: Api, target: string, title: string, plan: Plan): Promise<Saved | null> {
  const asked = await showDialog({
    title: text('Write an emergency checkpoint?'),
    body: new PlanBody(title, plan),
    buttons: [
      Dialog.cancelButton({ label: text('Cancel') }),
      Dialog.warnButton({ label: text('Write the checkpoint') })
    ],
    focusNodeSelector: '.jp-traindbg-plan input'
  });
  if (!asked.button.accept || !asked.value) {
    return null;
  }
  const { task } = await api.checkpoint(target, asked.value);
  const note = Notification.emit(text('Checkpoint of {job}: beginning', { job: title }), 'in-progress', {
    autoClose: false
  });
  try {
    for (;;) {
      const now = await api.task(task);
      if (now.state === 'done' && now.result) {
        return now.result;
      }
      if (now.state === 'failed') {
        throw new Refused(now.error?.message ?? text('it failed'), now.error?.next_step ?? '', 422);
      }
      Notification.update({
        id: note,
        message: text('Checkpoint of {job}: {progress}', { job: title, progress: progress(now) })
      });
      await new Promise(resolve => setTimeout(resolve, ASK_EVERY_MS));
    }
  } finally {
    Notification.dismiss(note);
  }
}
