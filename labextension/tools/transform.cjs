// What jest compiles a file with: esbuild, which also turns the ES modules of JupyterLab's packages into what jest can load.

const { transformSync } = require('esbuild');

module.exports = {
  process(source, path) {
    const loader = /\.tsx?$/.test(path) ? path.split('.').pop() : 'js';
    const options = { loader, format: 'cjs', target: 'es2022', sourcefile: path, sourcemap: 'inline' };
    return { code: transformSync(source, options).code };
  }
};
