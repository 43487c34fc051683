'use strict';
// What labels cost: CPU time of one await, and of entering a scope. Each kind in a process of its own.
const { AsyncLocalStorage } = require('node:async_hooks');
const { execFileSync } = require('node:child_process');

const times = 300_000;

async function awaits() { for (let i = 0; i < times; ++i) await null; }

async function cheapest(work) {
  let best = Infinity;
  for (let round = 0; round < 5; ++round) {
    const start = process.cpuUsage();
    await work();
    const used = process.cpuUsage(start);
    best = Math.min(best, ((used.user + used.system) * 1000) / times);
  }
  return Math.round(best);
}

const kinds = {
  'await: no labels in the process': () => cheapest(awaits),
  'await: in the context of a bare AsyncLocalStorage': () =>
    cheapest(() => new AsyncLocalStorage().run({}, awaits)),
  'await: unlabelled work beside labelled': () => {
    const { withLabels } = require('..');
    withLabels({ tenant: 'acme' }, () => {});
    return cheapest(awaits);
  },
  'await: labelled work': () => {
    const { withLabels } = require('..');
    return cheapest(() => withLabels({ tenant: 'acme' }, awaits));
  },
  '`withLabels` with two labels': () => {
    const { withLabels } = require('..');
    const labels = { tenant: 'acme', route: '/checkout' };
    return cheapest(() => { for (let i = 0; i < times; ++i) withLabels(labels, () => {}); });
  },
};

if (process.argv[2] !== undefined) {
  kinds[process.argv[2]]().then(console.log);
} else {
  console.log(process.version);
  for (const kind of Object.keys(kinds))
    console.log(`${kind} | ${String(execFileSync(process.execPath, [__filename, kind])).trim()}`);
}
