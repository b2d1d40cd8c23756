// Builds the side panel as JupyterLab's own tools do: tsc, then @jupyter/builder, into ../jupyter_traindbg/labextension/.

import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..');
const python = join(root, '..', 'jupyter_traindbg');
const output = join(python, 'labextension');
const built = join(root, 'build', 'labextension');
const require = createRequire(import.meta.url);

function run(...words) {
  const done = spawnSync(process.execPath, words, { cwd: root, encoding: 'utf8' });
  if (done.status !== 0) {
    process.stderr.write(`${done.stdout}${done.stderr}`);
    process.exit(done.status ?? 1);
  }
}

rmSync(join(root, 'lib'), { recursive: true, force: true });
run(require.resolve('typescript/bin/tsc'), '-p', 'tsconfig.panel.json');
run(
  require.resolve('@jupyter/builder/lib/build-labextension.js'),
  '--core-package-file',
  require.resolve('@jupyterlab/core-meta/core.package.json'),
  root
);

// The version is written in one place, for Python.
const version = /__version__ = "([^"]+)"/.exec(readFileSync(join(python, '_version.py'), 'utf8'))[1];
const card = join(built, 'package.json');
writeFileSync(card, JSON.stringify({ ...JSON.parse(readFileSync(card, 'utf8')), version }, null, 2));

// A server that serves it meanwhile has it whole, old or new, but for a moment.
const draft = `${output}.${process.pid}`;
const old = `${draft}.old`;
cpSync(built, draft, { recursive: true });
try {
  renameSync(output, old);
} catch (error) {
  if (error.code !== 'ENOENT') {
    throw error;
  }
}
renameSync(draft, output);
rmSync(old, { recursive: true, force: true });
