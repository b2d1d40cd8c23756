// The requests to the server extension. JupyterLab's own connection adds token and XSRF header.

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { Excerpt } from '../common/format';
import { text } from '../common/language';
import { Listing } from './jobs';

export interface Finding {
  code: string;
  severity: 'critical' | 'warning' | 'info';
  title: string;
  who: string[];
  where: string | null;
  source: (Excerpt & { file: string; cell?: number | null }) | null;
  evidence: string[];
  cause: string;
  next_steps: string[];
  confidence: string;
  reference: string | null;
}

export interface Diagnosis {
  findings: Finding[];
  text: string;
}

export interface Plan {
  directory: string;
  kind: string;
  bytes: number;
  free_bytes: number | null;
  pause_s: number | null;
  there: string;
  still: number[];
  missing: number[];
  note: string;
}

export interface Saved {
  directory: string;
  bytes: number;
  duration_s: number;
  exact: boolean;
  verified: boolean;
  text: string;
}

export interface Task {
  state: 'running' | 'done' | 'failed';
  done_bytes: number;
  total_bytes: number;
  result: Saved | null;
  error: { message: string; next_step: string } | null;
}

/** What opens a place: a file or notebook below the server's directory, or its text, to be read. */
export type Opening = { opens: 'file' | 'notebook'; path: string } | { opens: 'text'; name: string; text: string };

/** What the server refused, with what to do about it. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly nextStep: string,
    readonly status: number
  ) {
    super(message);
  }
}

export class Api {
  constructor(private readonly settings = ServerConnection.makeSettings()) {}

  jobs(): Promise<Listing> {
    return this.ask('jobs');
  }

  follow(target: string): Promise<unknown> {
    return this.ask('follow', { target });
  }

  unfollow(target: string): Promise<unknown> {
    return this.ask('unfollow', { target });
  }

  stacks(target: string): Promise<{ text: string }> {
    return this.ask('stacks', { target });
  }

  diagnose(target: string): Promise<Diagnosis> {
    return this.ask('diagnose', { target });
  }

  report(target: string): Promise<{ path: string; text: string; index: string | null }> {
    return this.ask('report', { target });
  }

  plan(target: string, directory?: string): Promise<Plan> {
    return this.ask('checkpoint/plan', directory === undefined ? { target } : { target, directory });
  }

  checkpoint(target: string, directory: string): Promise<{ task: string }> {
    return this.ask('checkpoint', { target, directory });
  }

  task(id: string): Promise<Task> {
    return this.ask(`tasks/${encodeURIComponent(id)}`);
  }

  place(file: string): Promise<Opening> {
    return this.ask(`place${URLExt.objectToQueryString({ file })}`);
  }

  page(reference: string): Promise<{ title: string; markdown: string }> {
    return this.ask(`page${URLExt.objectToQueryString({ reference })}`);
  }

  private async ask<T>(path: string, sent?: object): Promise<T> {
    const url = URLExt.join(this.settings.baseUrl, 'jupyter-traindbg', path);
    const init = sent === undefined ? {} : { method: 'POST', body: JSON.stringify(sent) };
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch {
      throw new Refused(text('the Jupyter server does not answer'), text('is it still running?'), 0);
    }
    const body = await response.text();
    let answer: { message?: string; next_step?: string } = {};
    try {
      answer = JSON.parse(body);
    } catch {
      answer = { message: text('the server answered {status} without JSON', { status: response.status }) };
    }
    if (!response.ok) {
      const missing = response.status === 404 && answer.next_step === undefined;
      throw new Refused(
        missing ? text('this server has no jupyter-traindbg extension') : (answer.message ?? response.statusText),
        missing
          ? text('install jupyter-traindbg where the Jupyter server runs, and restart it')
          : (answer.next_step ?? ''),
        response.status
      );
    }
    return answer as T;
  }
}
