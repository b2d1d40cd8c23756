// The side panel: one entry a job, its figures, and what can be done with it.

import { ReactWidget } from '@jupyterlab/apputils';
import { refreshIcon } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import React from 'react';
import { bytes, number } from '../common/format';
import { language, text } from '../common/language';
import { inWords, path } from '../common/sparkline';
import { traindbgIcon } from './icon';
import { inTrouble, Job, memory, sign, summary, title } from './jobs';
import { JobsModel } from './model';
import { woven } from './woven';

/** What can be done with a job: the command's name, what the button says, and what it is good for. */
export interface Verb {
  command: string;
  label: string;
  help: string;
  /** Why it cannot be done with this job, or null. */
  refusal?(job: Job): string | null;
  primary?: boolean;
}

export interface PanelOptions {
  model: JobsModel;
  verbs: readonly Verb[];
  run(command: string, target: string): void;
  busy(target: string): string | null;
}

const CHART = { width: 240, height: 34 };

export class JobsPanel extends ReactWidget {
  private announced = '';

  constructor(private readonly options: PanelOptions) {
    super();
    this.id = 'traindbg-jobs';
    this.addClass('jp-traindbg-panel');
    this.title.icon = traindbgIcon;
    this.title.caption = text('Training jobs');
    this.node.lang = language();
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', text('Training jobs'));
    options.model.changed.connect(() => this.update());
    options.model.told.connect((_, news) => {
      this.announced = news.text;
      this.update();
    });
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.options.model.setSeen(true);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.options.model.setSeen(false);
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    const first = this.node.querySelector<HTMLElement>('.jp-traindbg-head, button');
    first?.focus();
  }

  protected override render(): React.ReactElement {
    const { model } = this.options;
    const sorted = [...model.jobs].sort((a, b) => Number(inTrouble(b)) - Number(inTrouble(a)));
    return (
      <>
        <div className="jp-traindbg-bar">
          <h2>
            {text('Training jobs')}
            {model.host && <span className="jp-traindbg-host">{text(' on {host}', { host: model.host })}</span>}
          </h2>
          <button
            type="button"
            className="jp-traindbg-icon-button"
            title={text('Look again now')}
            aria-label={text('Look for training jobs now')}
            onClick={() => void model.refresh()}
          >
            <refreshIcon.react tag="span" />
          </button>
        </div>
        <div className="jp-traindbg-live" role="status" aria-live="polite">
          {this.announced}
        </div>
        {model.problem && (
          <div className="jp-traindbg-problem" role="alert">
            {model.problem.nextStep ? (
              woven(text('{cause}; {next_step}', { cause: '{cause}', next_step: '{next_step}' }), {
                cause: <strong>{model.problem.message}</strong>,
                next_step: <span>{model.problem.nextStep}</span>
              })
            ) : (
              <strong>{model.problem.message}</strong>
            )}
          </div>
        )}
        {!model.on && (
          <p className="jp-traindbg-note">{text('Looking is off in the settings; press the button above to look.')}</p>
        )}
        {model.jobs.length > 0 ? (
          <ul className="jp-traindbg-list" aria-label={text('Training jobs')} onKeyDown={walk}>
            {sorted.map(job => (
              <Entry key={job.name} job={job} options={this.options} />
            ))}
          </ul>
        ) : (
          !model.problem && <Empty looked={model.looked} />
        )}
        {model.looked && !model.actions.allowed && model.jobs.length > 0 && (
          <p className="jp-traindbg-note">
            {text('Read-only: {why}. {what_to_do}.', {
              why: model.actions.message ?? '',
              what_to_do: capital(model.actions.next_step ?? '')
            })}
          </p>
        )}
      </>
    );
  }
}

function Empty(props: { looked: boolean }): React.ReactElement {
  if (!props.looked) {
    return <p className="jp-traindbg-note">{text('Looking…')}</p>;
  }
  return (
    <div className="jp-traindbg-empty">
      <p>{text("No training runs on the server's host.")}</p>
      <p>
        {woven(
          text(
            'Start one: {python}, {torchrun}, a notebook, a Ray job. It appears here by itself; nothing has to be changed in it.',
            { python: '{python}', torchrun: '{torchrun}' }
          ),
          { python: <code>python train.py</code>, torchrun: <code>torchrun</code> }
        )}
      </p>
    </div>
  );
}

function Entry(props: { job: Job; options: PanelOptions }): React.ReactElement {
  const { job, options } = props;
  const [open, setOpen] = React.useState(true);
  const shown = sign(job);
  const id = React.useId();
  const busy = options.busy(job.name);
  return (
    <li className={`jp-traindbg-job jp-mod-${shown.tone}`} data-target={job.name}>
      <h3>
        <button
          type="button"
          className="jp-traindbg-head"
          aria-expanded={open}
          aria-controls={id}
          onClick={() => setOpen(!open)}
          title={job.command}
        >
          <span className="jp-traindbg-twist" aria-hidden="true">
            {open ? '▾' : '▸'}
          </span>
          <span className="jp-traindbg-title">{title(job)}</span>
          <span className={`jp-traindbg-state jp-mod-${shown.tone}`}>
            <span aria-hidden="true">{shown.glyph}</span> {shown.word}
          </span>
        </button>
      </h3>
      <div id={id} hidden={!open} className="jp-traindbg-body">
        <p className="jp-traindbg-summary">{summary(job)}</p>
        {job.state && job.state.words !== shown.word && <p className="jp-traindbg-words">{job.state.words}</p>}
        <Figures job={job} />
        {job.why_not && !job.agent && (
          <p className="jp-traindbg-note">{text('Cannot be attached to: {why}', { why: job.why_not })}</p>
        )}
        <div className="jp-traindbg-verbs" role="group" aria-label={text('Actions for {job}', { job: title(job) })}>
          {options.verbs.map(verb => (
            <VerbButton key={verb.command} verb={verb} job={job} run={options.run} busy={busy} />
          ))}
        </div>
        <div role="status" className="jp-traindbg-busy">
          {busy}
        </div>
      </div>
    </li>
  );
}

function Figures(props: { job: Job }): React.ReactElement {
  const { job } = props;
  const line = path(job.loss, CHART.width, CHART.height);
  const last = [...job.loss].reverse().find(value => value !== null);
  return (
    <dl className="jp-traindbg-figures">
      {job.step !== null && (
        <div>
          <dt>{text('step')}</dt>
          <dd title={job.at}>{(job.own_step ?? job.step).toLocaleString('en')}</dd>
        </div>
      )}
      {line && (
        <div>
          <dt>{text('loss')}</dt>
          <dd>{number(last)}</dd>
        </div>
      )}
      {!job.gone && (
        <div>
          <dt>{text('memory')}</dt>
          <dd
            title={
              job.rss_bytes === null
                ? undefined
                : text('{size} resident, all processes', { size: bytes(job.rss_bytes) })
            }
          >
            {memory(job)}
          </dd>
        </div>
      )}
      {line && (
        <svg
          className="jp-traindbg-spark"
          viewBox={`-2 -2 ${CHART.width + 4} ${CHART.height + 4}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={text('Loss of the latest steps: {words}', { words: inWords(job.loss, value => number(value)) })}
        >
          <path d={line} vectorEffect="non-scaling-stroke" />
        </svg>
      )}
    </dl>
  );
}

function VerbButton(props: {
  verb: Verb;
  job: Job;
  run: PanelOptions['run'];
  busy: string | null;
}): React.ReactElement {
  const { verb, job, busy } = props;
  const refusal = verb.refusal?.(job) ?? null;
  const following = verb.command === 'traindbg:follow' ? job.followed : undefined;
  // Refused buttons stay in the tab order, so that everybody can learn why.
  return (
    <button
      type="button"
      className={`jp-traindbg-verb${verb.primary ? ' jp-mod-primary' : ''}`}
      aria-disabled={refusal !== null || busy !== null}
      aria-pressed={following}
      title={refusal ?? verb.help}
      aria-description={refusal ?? verb.help}
      data-command={verb.command}
      onClick={() => {
        if (busy === null) {
          props.run(verb.command, job.name);
        }
      }}
    >
      {verb.label}
    </button>
  );
}

/** The arrow keys walk from job to job. */
function walk(event: React.KeyboardEvent<HTMLElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const heads = [...event.currentTarget.querySelectorAll<HTMLElement>('.jp-traindbg-head')];
  const at = heads.indexOf(event.target as HTMLElement);
  if (step !== undefined && at >= 0) {
    heads[Math.min(heads.length - 1, Math.max(0, at + step))].focus();
    event.preventDefault();
  }
}

function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
