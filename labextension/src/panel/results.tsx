// What a question about a job gave, in a tab of the main area: text as text, findings as cards.

import { MainAreaWidget, ReactWidget } from '@jupyterlab/apputils';
import React from 'react';
import { clock, numbered } from '../common/format';
import { language, pgettext, text } from '../common/language';
import { Diagnosis, Finding } from './api';
import { traindbgIcon } from './icon';
import { Linked, pageOf, placeOf } from './linked';

const SIGNS = { critical: '■', warning: '▲', info: '●' };

function severity(finding: Finding): string {
  const words = { critical: text('critical'), warning: text('warning'), info: text('info') };
  return `${SIGNS[finding.severity]} ${words[finding.severity]}`;
}

function confidence(finding: Finding): string {
  const words: Record<string, string> = { high: text('high'), medium: text('medium'), low: text('low') };
  return text('confidence {level}', { level: words[finding.confidence] ?? finding.confidence });
}

/** A tab called `label` with `content` in it. */
export function resultTab(id: string, label: string, content: React.ReactElement): MainAreaWidget {
  const body = ReactWidget.create(<article className="jp-traindbg-result">{content}</article>);
  const tab = new MainAreaWidget({ content: body });
  tab.id = id;
  tab.title.label = label;
  tab.title.icon = traindbgIcon;
  tab.title.closable = true;
  body.node.tabIndex = 0;
  body.node.lang = language();
  body.node.setAttribute('role', 'document');
  body.node.setAttribute('aria-label', label);
  return tab;
}

export function TextResult(props: { heading: string; text: string; taken: Date }): React.ReactElement {
  return (
    <>
      <h1>{props.heading}</h1>
      <p className="jp-traindbg-note">{text('Taken at {time}', { time: clock(props.taken) })}</p>
      <pre>{props.text}</pre>
    </>
  );
}

export function DiagnosisResult(props: { heading: string; diagnosis: Diagnosis; taken: Date }): React.ReactElement {
  const { findings } = props.diagnosis;
  return (
    <>
      <h1>{props.heading}</h1>
      <p className="jp-traindbg-note">{text('Taken at {time}', { time: clock(props.taken) })}</p>
      {findings.length === 0 && <p className="jp-traindbg-healthy">✔ {text('Nothing wrong was found.')}</p>}
      {findings.map((finding, n) => (
        <Card key={n} finding={finding} root={n === 0} />
      ))}
      <details>
        <summary>{text('All of it as text')}</summary>
        <pre>{props.diagnosis.text}</pre>
      </details>
    </>
  );
}

function Card(props: { finding: Finding; root: boolean }): React.ReactElement {
  const { finding } = props;
  return (
    <section className={`jp-traindbg-card jp-mod-${finding.severity}`}>
      <h2>
        <span className="jp-traindbg-severity">{severity(finding)}</span> {finding.title}
      </h2>
      <p className="jp-traindbg-note">
        {finding.code} · {confidence(finding)}
        {finding.who.length > 0 && (
          <> · {text('to look at: {who}', { who: finding.who.join(pgettext('list', ', ')) })}</>
        )}
        {finding.where && (
          <>
            {' '}
            ·{' '}
            <Linked to={placeOf(finding.source)}>
              <code>{finding.where}</code>
            </Linked>
          </>
        )}
        {finding.reference && (
          <>
            {' '}
            · <Linked to={pageOf(finding.reference)}>{finding.reference}</Linked>
          </>
        )}
      </p>
      {finding.source && (
        <pre className="jp-traindbg-source">
          {numbered(finding.source).map((row, n) =>
            row.meant ? <strong key={n}>{row.text}</strong> : <React.Fragment key={n}>{row.text}</React.Fragment>
          )}
        </pre>
      )}
      {finding.cause && <p>{finding.cause}</p>}
      <Points heading={text('Evidence')} points={finding.evidence} />
      <Points heading={text('What to do')} points={finding.next_steps} numbered />
    </section>
  );
}

function Points(props: { heading: string; points: string[]; numbered?: boolean }): React.ReactElement | null {
  if (props.points.length === 0) {
    return null;
  }
  const items = props.points.map((point, n) => <li key={n}>{point}</li>);
  return (
    <>
      <h3>{props.heading}</h3>
      {props.numbered ? <ol>{items}</ol> : <ul>{items}</ul>}
    </>
  );
}
