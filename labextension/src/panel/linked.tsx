// Links to what a finding names, of the kind that src/links opens.

import React from 'react';
import { Finding } from './api';

export type Attributes = Record<string, string>;

/** Its children as a link with these attributes; as they are where they lead nowhere. */
export function Linked(props: { to: Attributes | null; children: React.ReactNode }): React.ReactElement {
  if (props.to === null) {
    return <>{props.children}</>;
  }
  return (
    <a className="traindbg-link" data-lm-suppress-shortcuts="true" {...props.to}>
      {props.children}
    </a>
  );
}

export function placeOf(source: Finding['source']): Attributes | null {
  if (source === null) {
    return null;
  }
  const place = { 'data-traindbg-file': source.file, 'data-traindbg-line': String(source.line) };
  return source.cell == null ? place : { ...place, 'data-traindbg-cell': String(source.cell) };
}

export function pageOf(reference: string): Attributes | null {
  if (reference.startsWith('https://')) {
    return { href: reference, target: '_blank', rel: 'noopener noreferrer' };
  }
  return reference.startsWith('docs/') ? { 'data-traindbg-page': reference } : null;
}
