'use strict';
// A program with code that is terminated in the middle, of whose end no hook tells. Exit status 0: what is
// on display is right afterwards.
const assert = require('node:assert/strict');
const { setTimeout: sleep } = require('node:timers/promises');
const vm = require('node:vm');
const { labelsInForce } = require('../build/Release/customlabels.node');
const { withLabels } = require('../index.js');

const codes = ['for (;;);'];
// Where AsyncLocalStorage works by hooks (before Node 24), this ends a process that has any: "async hook stack
// has become corrupted".
if (parseInt(process.versions.node, 10) >= 24 && !process.env.NODE_OPTIONS?.includes('--no-async-context-frame'))
  codes.push('Promise.resolve().then(() => { for (;;); })');

const shows = (value) => assert.deepEqual(labelsInForce().map(String), value ? ['tenant', value] : []);

const terminate = (code) => vm.runInNewContext(code, {}, { timeout: 5, microtaskMode: 'afterEvaluate' });

async function main() {
  await withLabels({ tenant: 'outer' }, async () => {
    for (const code of codes) {
      await withLabels({ tenant: 'inner' }, async () => {
        await sleep(1);
        assert.throws(() => terminate(code), /timed out/);
        shows('inner');
      });
      shows('outer');
      await sleep(1);
      shows('outer');
    }
  });
  shows();
  const rest = new Promise((resolve) => { setTimeout(() => { shows(); resolve(); }, 5); });
  await withLabels({ tenant: 'last' }, () => sleep(1));
  shows();
  await rest;
}

// The last to end: after it the thread waits for events, until there are none.
const last = () => withLabels({ tenant: 'last' }, () => setTimeout(() => {
  for (const code of codes) assert.throws(() => terminate(code), /timed out/);
}, 5));
process.on('exit', () => shows());

main().then(last);
