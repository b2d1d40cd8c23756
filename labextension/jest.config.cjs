module.exports = {
  testEnvironment: 'jsdom',
  roots: ['<rootDir>/src'],
  testMatch: ['**/*.spec.ts'],
  transform: { '\\.[cm]?[jt]sx?$': '<rootDir>/tools/transform.cjs' },
  transformIgnorePatterns: [
    '/node_modules/(?!(@jupyter|@jupyterlab|@lumino|@microsoft|lib0|y-protocols|yjs|exenv-es6)/)'
  ],
  setupFiles: ['<rootDir>/tools/jsdom.cjs'],
  moduleNameMapper: { '\\.(css|svg)$': '<rootDir>/tools/nothing.cjs' },
  maxWorkers: 1
};
