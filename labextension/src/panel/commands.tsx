// What can be done with a job, as commands: the panel's buttons and the palette run the same ones.

import { JupyterFrontEnd } from '@jupyterlab/application';
import { InputDialog, Notification } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';
import React from 'react';
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
    job.gone ? 'It has ended' : job.agent || job.why_not === null ? null : job.why_not;
  const alive = (job: Job): string | null => (job.gone ? 'It has ended' : null);
  return [
    {
      command: 'traindbg:attach',
      label: 'Attach',
      help: 'Attach in the current notebook, or a new one',
      refusal: enter,
      primary: true
    },
    {
      command: 'traindbg:attach-new',
      label: 'In a new notebook',
      help: 'Attach in a new notebook',
      refusal: enter
    },
    {
      command: 'traindbg:watch',
      label: 'Watch',
      help: 'Live curves in the current notebook, or a new one',
      refusal: enter
    },
    {
      command: 'traindbg:follow',
      label: 'Follow',
      help: 'Read its steps from here, without a notebook',
      refusal: job => (job.followed ? null : enter(job))
    },
    {
      command: 'traindbg:diagnose',
      label: 'Diagnose',
      help: 'What is wrong, who is to blame, what to do',
      refusal: alive
    },
    { command: 'traindbg:stacks', label: 'Stacks', help: 'What every thread of every rank does', refusal: alive },
    {
      command: 'traindbg:checkpoint',
      label: 'Checkpoint…',
      help: 'Emergency checkpoint: save everything that the training needs to go on',
      refusal: job =>
        enter(job) ?? (model.actions.allowed ? null : `${model.actions.message}; ${model.actions.next_step}`)
    },
    {
      command: 'traindbg:report',
      label: 'Report',
      help: 'One zip with what a maintainer would ask for, without secrets',
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
      ['traindbg:attach', 'Attach to a Training Job', 'attaching', job => this.inNotebook(job, false, 'current')],
      [
        'traindbg:attach-new',
        'Attach to a Training Job in a New Notebook',
        'attaching',
        job => this.inNotebook(job, false, 'new')
      ],
      ['traindbg:watch', 'Watch a Training Job', 'opening the live view', job => this.inNotebook(job, true, 'current')],
      ['traindbg:follow', 'Follow a Training Job, or No Longer', 'attaching', job => this.follow(job)],
      ['traindbg:diagnose', 'Diagnose a Training Job', 'diagnosing, about 3 s', job => this.diagnose(job)],
      ['traindbg:stacks', 'Show the Stacks of a Training Job', 'reading stacks', job => this.stacks(job)],
      [
        'traindbg:checkpoint',
        'Write an Emergency Checkpoint of a Training Job',
        'checkpoint',
        job => this.checkpoint(job)
      ],
      ['traindbg:report', 'Write a Report on a Training Job', 'writing the report', job => this.report(job)]
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
      Notification.warning(`${title(job)}: ${refusal}`, { autoClose: 10000 });
      return;
    }
    this.underWay.set(job.name, `${doing}…`);
    this.changed.emit();
    try {
      await execute(job);
    } catch (error) {
      const next = error instanceof Refused && error.nextStep ? `; ${error.nextStep}` : '';
      Notification.error(`${title(job)}: ${(error as Error).message}${next}`, { autoClose: false });
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
      Notification.info('There is no such training job on this host just now.');
      return null;
    }
    if (jobs.length === 1) {
      return jobs[0];
    }
    const items = jobs.map(job => `${title(job)} (${job.name})`);
    const choice = await InputDialog.getItem({ title: 'Which training job?', items });
    return choice.button.accept && choice.value !== null ? jobs[items.indexOf(choice.value)] : null;
  }

  private async inNotebook(job: Job, watch: boolean, where: Where): Promise<void> {
    const ran = await this.notebooks.run(job.name, watch, where);
    if (ran.missing) {
      Notification.warning(
        "The notebook's kernel has no jupyter-traindbg. Run %pip install jupyter-traindbg in it, or choose another kernel.",
        { autoClose: false }
      );
    }
  }

  private async follow(job: Job): Promise<void> {
    await (job.followed ? this.api.unfollow(job.name) : this.api.follow(job.name));
  }

  private async stacks(job: Job): Promise<void> {
    const { text } = await this.api.stacks(job.name);
    this.open('stacks', job, <TextResult heading={`Stacks of ${title(job)}`} text={text} taken={new Date()} />);
  }

  private async diagnose(job: Job): Promise<void> {
    const diagnosis = await this.api.diagnose(job.name);
    const heading = `Diagnosis of ${title(job)}`;
    this.open('diagnosis', job, <DiagnosisResult heading={heading} diagnosis={diagnosis} taken={new Date()} />);
  }

  private async report(job: Job): Promise<void> {
    const { path, text, index } = await this.api.report(job.name);
    const download = { label: 'Download', callback: () => void this.download(path) };
    const open = { label: 'Open', callback: () => void this.app.commands.execute('docmanager:open', { path: index }) };
    Notification.success(`The report is ${path}`, { autoClose: false, actions: index ? [open, download] : [download] });
    this.open(
      'report',
      job,
      <TextResult heading={`Report on ${title(job)}: ${path}`} text={text} taken={new Date()} />
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
    const verified = saved.verified ? 'read again, all sums right' : 'READ AGAIN, AND DAMAGED';
    Notification[saved.verified ? 'success' : 'error'](`Checkpoint in ${saved.directory}: ${verified}`, {
      autoClose: false
    });
    this.open(
      'checkpoint',
      job,
      <TextResult heading={`Checkpoint of ${title(job)}`} text={saved.text} taken={new Date()} />
    );
  }

  /** Show a result; the next one of the same kind takes its place. */
  private open(kind: string, job: Job, content: React.ReactElement): void {
    const id = `traindbg-${kind}-${job.name}`;
    for (const old of this.app.shell.widgets('main')) {
      if (old.id === id) {
        old.dispose();
        break;
      }
    }
    const tab = resultTab(id, `${kind}: ${title(job)}`, content);
    this.app.shell.add(tab, 'main');
    this.app.shell.activateById(id);
  }
}
