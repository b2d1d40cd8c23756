// What can be done with a job, as commands: the panel's buttons and the palette run the same ones.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { InputDialog, Notification } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';
import React from 'react';
import { text } from '../common/language';
import { Api, Refused } from './api';
import { checkpoint } from './checkpoint';
import { Job, title } from './jobs';
import { JobsModel } from './model';
import { Notebooks, Where } from './notebooks';
import { Verb } from './panel';
import { DiagnosisResult, resultTab, TextResult } from './results';

/** The buttons of a job, in order. */
export function VERBS(model: JobsModel): readonly Verb[] {
  const enter = (job: Job): string | null =>
    job.gone ? text('It has ended') : job.agent || job.why_not === null ? null : job.why_not;
  const alive = (job: Job): string | null => (job.gone ? text('It has ended') : null);
  return [
    {
      command: 'traindbg:attach',
      label: text('Attach'),
      help: text('Attach in the current notebook, or a new one'),
      refusal: enter,
      primary: true
    },
    {
      command: 'traindbg:attach-new',
      label: text('In a new notebook'),
      help: text('Attach in a new notebook'),
      refusal: enter
    },
    {
      command: 'traindbg:watch',
      label: text('Watch'),
      help: text('Live curves in the current notebook, or a new one'),
      refusal: enter
    },
    {
      command: 'traindbg:follow',
      label: text('Follow'),
      help: text('Read its steps from here, without a notebook'),
      refusal: job => (job.followed ? null : enter(job))
    },
    {
      command: 'traindbg:diagnose',
      label: text('Diagnose'),
      help: text('What is wrong, who is to blame, what to do'),
      refusal: alive
    },
    {
      command: 'traindbg:stacks',
      label: text('Stacks'),
      help: text('What every thread of every rank does'),
      refusal: alive
    },
    {
      command: 'traindbg:checkpoint',
      label: text('Checkpoint…'),
      help: text('Emergency checkpoint: save everything that the training needs to go on'),
      refusal: job =>
        enter(job) ??
        (model.actions.allowed
          ? null
          : text('{cause}; {next_step}', {
              cause: model.actions.message ?? '',
              next_step: model.actions.next_step ?? ''
            }))
    },
    {
      command: 'traindbg:report',
      label: text('Report'),
      help: text('One zip with what a maintainer would ask for, without secrets'),
      refusal: alive
    }
  ];
}

export class Commands {
  /** What is under way has changed. */
  readonly changed = new Signal<this, void>(this);
  private readonly underWay = new Map<string, string>();

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly api: Api,
    private readonly model: JobsModel,
    private readonly notebooks: Notebooks
  ) {}

  /** What is being done with a job just now, in words, or null. */
  busy(target: string): string | null {
    return this.underWay.get(target) ?? null;
  }

  /** Add all commands; their names. */
  register(): string[] {
    const all: [string, string, string, (job: Job) => Promise<void>][] = [
      [
        'traindbg:attach',
        text('Attach to a Training Job'),
        text('attaching…'),
        job => this.inNotebook(job, false, 'current')
      ],
      [
        'traindbg:attach-new',
        text('Attach to a Training Job in a New Notebook'),
        text('attaching…'),
        job => this.inNotebook(job, false, 'new')
      ],
      [
        'traindbg:watch',
        text('Watch a Training Job'),
        text('opening the live view…'),
        job => this.inNotebook(job, true, 'current')
      ],
      ['traindbg:follow', text('Follow a Training Job, or No Longer'), text('attaching…'), job => this.follow(job)],
      ['traindbg:diagnose', text('Diagnose a Training Job'), text('diagnosing, about 3 s…'), job => this.diagnose(job)],
      ['traindbg:stacks', text('Show the Stacks of a Training Job'), text('reading stacks…'), job => this.stacks(job)],
      [
        'traindbg:checkpoint',
        text('Write an Emergency Checkpoint of a Training Job'),
        text('writing a checkpoint…'),
        job => this.checkpoint(job)
      ],
      [
        'traindbg:report',
        text('Write a Report on a Training Job'),
        text('writing the report…'),
        job => this.report(job)
      ]
    ];
    for (const [id, label, doing, execute] of all) {
      this.app.commands.addCommand(id, {
        label,
        execute: args => this.perform(id, doing, execute, args.target as string | undefined)
      });
    }
    return all.map(([id]) => id);
  }

  private async perform(
    id: string,
    doing: string,
    execute: (job: Job) => Promise<void>,
    target?: string
  ): Promise<void> {
    const job = await this.chosen(target);
    if (job === null || this.underWay.has(job.name)) {
      return;
    }
    const refusal =
      VERBS(this.model)
        .find(verb => verb.command === id)
        ?.refusal?.(job) ?? null;
    if (refusal !== null) {
      Notification.warning(text('{what}: {words}', { what: title(job), words: refusal }), { autoClose: 10000 });
      return;
    }
    this.underWay.set(job.name, doing);
    this.changed.emit();
    try {
      await execute(job);
    } catch (error) {
      const { message: cause } = error as Error;
      const next_step = error instanceof Refused ? error.nextStep : '';
      const words = next_step ? text('{cause}; {next_step}', { cause, next_step }) : cause;
      Notification.error(text('{what}: {words}', { what: title(job), words }), { autoClose: false });
    } finally {
      this.underWay.delete(job.name);
      this.changed.emit();
      void this.model.refresh();
    }
  }

  /** The job that is named; else the only one; else the one that the person chooses. */
  private async chosen(target?: string): Promise<Job | null> {
    if (target === undefined) {
      await this.model.refresh();
    }
    const jobs = target === undefined ? this.model.jobs : this.model.jobs.filter(job => job.name === target);
    if (jobs.length === 0) {
      Notification.info(text('There is no such training job on this host just now.'));
      return null;
    }
    if (jobs.length === 1) {
      return jobs[0];
    }
    const items = jobs.map(job => text('{what} ({words})', { what: title(job), words: job.name }));
    const choice = await InputDialog.getItem({ title: text('Which training job?'), items });
    return choice.button.accept && choice.value !== null ? jobs[items.indexOf(choice.value)] : null;
  }

  private async inNotebook(job: Job, watch: boolean, where: Where): Promise<void> {
    const ran = await this.notebooks.run(job.name, watch, where);
    if (ran.missing) {
      Notification.warning(
        text(
          "The notebook's kernel has no jupyter-traindbg. Run %pip install jupyter-traindbg in it, or choose another kernel."
        ),
        { autoClose: false }
      );
    }
  }

  private async follow(job: Job): Promise<void> {
    await (job.followed ? this.api.unfollow(job.name) : this.api.follow(job.name));
  }

  private async stacks(job: Job): Promise<void> {
    const { text: said } = await this.api.stacks(job.name);
    const heading = text('Stacks of {job}', { job: title(job) });
    this.open(
      'stacks',
      text('stacks: {job}', { job: title(job) }),
      job,
      <TextResult heading={heading} text={said} taken={new Date()} />
    );
  }

  private async diagnose(job: Job): Promise<void> {
    const diagnosis = await this.api.diagnose(job.name);
    const heading = text('Diagnosis of {job}', { job: title(job) });
    this.open(
      'diagnosis',
      text('diagnosis: {job}', { job: title(job) }),
      job,
      <DiagnosisResult heading={heading} diagnosis={diagnosis} taken={new Date()} />
    );
  }

  private async report(job: Job): Promise<void> {
    const { path, text: said, index } = await this.api.report(job.name);
    const download = { label: text('Download'), callback: () => void this.download(path) };
    const open = {
      label: text('Open'),
      callback: () => void this.app.commands.execute('docmanager:open', { path: index })
    };
    Notification.success(text('The report is {path}', { path }), {
      autoClose: false,
      actions: index ? [open, download] : [download]
    });
    const heading = text('Report on {job}', { job: title(job) });
    this.open(
      'report',
      text('report: {job}', { job: title(job) }),
      job,
      <TextResult heading={text('{what}: {words}', { what: heading, words: path })} text={said} taken={new Date()} />
    );
  }

  private async download(path: string): Promise<void> {
    const url = await this.app.serviceManager.contents.getDownloadUrl(path);
    window.open(url, '_blank', 'noopener');
  }

  private async checkpoint(job: Job): Promise<void> {
    const saved = await checkpoint(this.api, job.name, title(job), await this.api.plan(job.name));
    if (saved === null) {
      return;
    }
    const { directory } = saved;
    Notification[saved.verified ? 'success' : 'error'](
      saved.verified
        ? text('Checkpoint in {directory}: read again, all sums right', { directory })
        : text('Checkpoint in {directory}: READ AGAIN, AND DAMAGED', { directory }),
      { autoClose: false }
    );
    const heading = text('Checkpoint of {job}', { job: title(job) });
    this.open(
      'checkpoint',
      text('checkpoint: {job}', { job: title(job) }),
      job,
      <TextResult heading={heading} text={saved.text} taken={new Date()} />
    );
  }

  /** Show a result; the next one of the same kind takes its place. */
  private open(kind: string, label: string, job: Job, content: React.ReactElement): void {
    const id = `traindbg-${kind}-${job.name}`;
    for (const old of this.app.shell.widgets('main')) {
      if (old.id === id) {
        old.dispose();
        break;
      }
    }
    const tab = resultTab(id, label, content);
    this.app.shell.add(tab, 'main');
    this.app.shell.activateById(id);
  }
}
