// Builds the live widgets: ../jupyter_traindbg/widgets/static/watch.js (one ES module, all in it) and watch.css. --watch: again at each change.

import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, '..', '..', 'jupyter_traindbg', 'widgets', 'static');
const watching = process.argv.includes('--watch');
const draft = watching ? output : `${output}.${process.pid}`;

const options = {
  entryPoints: { watch: join(here, '..', 'src', 'widgets', 'index.ts') },
  outdir: draft,
  bundle: true,
  format: 'esm',
  target: ['es2020'],
  minify: !watching,
  charset: 'utf8',
  legalComments: 'inline',
  logLevel: 'warning'
};

if (watching) {
  const context = await esbuild.context(options);
  await context.watch();
} else {
  try {
    mkdirSync(draft, { recursive: true });
    await esbuild.build(options);
    mkdirSync(output, { recursive: true });
    for (const name of ['watch.css', 'watch.js']) {
      // A kernel that reads them meanwhile finds the old one or the new one, whole.
      renameSync(join(draft, name), join(output, name));
    }
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}
