// What browsers have and jest's page lacks.
globalThis.TextEncoder ??= require('node:util').TextEncoder;
globalThis.matchMedia ??= query => ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} });
