// The status bar: how many jobs there are, or which one is in trouble, in words and by a sign of its own shape.

import { ReactWidget } from '@jupyterlab/apputils';
import React from 'react';
import { text } from '../common/language';
import { overall } from './jobs';
import { JobsModel } from './model';

export class JobsStatus extends ReactWidget {
  constructor(
    private readonly model: JobsModel,
    private readonly open: () => void
  ) {
    super();
    this.addClass('jp-traindbg-status');
    model.changed.connect(() => this.update());
  }

  protected override render(): React.ReactElement {
    const { text: words, glyph, trouble } = overall(this.model.jobs);
    return (
      <button
        type="button"
        className={trouble ? 'jp-mod-bad' : undefined}
        title={text('Show the training jobs')}
        aria-label={text('Training jobs: {words}. Show them', { words })}
        onClick={this.open}
      >
        <span aria-hidden="true">{glyph}</span> {words}
      </button>
    );
  }
}
