// A sentence with elements in it.

import React from 'react';

/** `said`, with `elements` in the `{places}` that bear their names. */
export function woven(said: string, elements: Record<string, React.ReactNode>): React.ReactElement {
  return (
    <>
      {said.split(/\{(\w+)\}/).map((part, i) => (
        <React.Fragment key={i}>{i % 2 === 0 ? part : elements[part]}</React.Fragment>
      ))}
    </>
  );
}
