'use strict';
// What the thread shows, asked of the addon itself: without bringing it up to date first, as
// currentLabels() would.
const assert = require('node:assert/strict');
const { AsyncLocalStorage, AsyncResource, executionAsyncId } = require('node:async_hooks');
const { EventEmitter } = require('node:events');
const { Readable } = require('node:stream');
const { setTimeout: sleep } = require('node:timers/promises');
const test = require('node:test');
const vm = require('node:vm');
const { labelsInForce } = require('../build/Release/customlabels.node');
const { withLabels, withTrace, bindLabels, currentLabels, publishContext } = require('../index.js');

function shown() {
  const pairs = labelsInForce().map(String);
  return Object.fromEntries(Array.from({ length: pairs.length / 2 }, (_, i) => pairs.slice(2 * i, 2 * i + 2)));
}
const shows = (labels) => assert.deepEqual(shown(), labels);
const acme = { tenant: 'acme' };
const globex = { tenant: 'globex' };

test('the result, and what is thrown, are the function\'s', async () => {
  assert.equal(withLabels(acme, () => 42), 42);
  assert.equal(await withLabels(acme, async () => 43), 43);
  const error = new Error('mine');
  assert.throws(() => withLabels(acme, () => { throw error; }), error);
  await assert.rejects(withLabels(acme, async () => { await null; throw error; }), error);
  shows({});
});

test('inner labels are on top of outer ones, and hide those of the same key', () => {
  withLabels({ tenant: 'acme', route: '/a' }, () => {
    withLabels({ route: '/b', step: '1' }, () => shows({ tenant: 'acme', route: '/b', step: '1' }));
    shows({ tenant: 'acme', route: '/a' });
    assert.throws(() => withLabels(globex, () => { throw new Error(); }));
    shows({ tenant: 'acme', route: '/a' });
  });
  shows({});
});

test('any bytes', () => {
  const bytes = Buffer.from([0xff, 0, 0xfe]);
  const labels = new Map([['bytes', bytes], ['ключ', 'значение'], ['', ''], ['__proto__', 'p']]);
  withLabels(labels, () => assert.deepEqual(currentLabels(), labels));
  assert.deepEqual(currentLabels(), new Map());
});

test('the set in force can be put on top of itself', () => {
  withLabels(acme, () => withLabels(currentLabels(), () => shows(acme)));
});

test('from an ES module', async () => {
  const { withLabels: imported } = await import('../index.js');
  imported(acme, () => shows(acme));
});

test('attributes of a context that cannot be are refused', () => {
  for (const resource of [null, 1, { a: undefined }, { a: {} }, { a: 1n }])
    assert.throws(() => publishContext(resource), TypeError);
  assert.throws(() => publishContext({ '': 'x' }), /publishContext: .*key/);
});

test('a trace', () => {
  const trace = { traceId: 'A'.repeat(32), spanId: 'b'.repeat(16) };
  withTrace(trace, acme, () =>
    shows({ ...acme, trace_id: 'a'.repeat(32), span_id: 'b'.repeat(16) }));
  withTrace({ traceId: '0'.repeat(32), spanId: '0'.repeat(16) }, acme, () => shows(acme));
});

test('what cannot be a label is refused, and changes nothing', () => {
  const never = () => assert.fail('must not be called');
  for (const labels of [undefined, null, 'tenant', 1, { a: 1 }, { a: null }, { a: ['x'] }, new Map([[1, 'x']])])
    assert.throws(() => withLabels(labels, never), TypeError);
  assert.throws(() => withLabels({ 'a key': undefined }, never), /"a key" must be a string or a Buffer, not undef/);
  for (const fn of [undefined, null, acme]) {
    assert.throws(() => withLabels(acme, fn), /^TypeError: fn must be a function, not /);
    assert.throws(() => bindLabels(fn), /^TypeError: fn must be a function, not /);
  }
  assert.throws(() => withTrace({ traceId: '0'.repeat(32), spanId: '0'.repeat(16) }, () => {}), /fn must be a function/);
  for (const ids of [undefined, {}, { traceId: 'x'.repeat(32), spanId: '0'.repeat(16) },
    { traceId: '0'.repeat(32), spanId: '0'.repeat(15) }])
    assert.throws(() => withTrace(ids, acme, never), TypeError);
  withLabels(acme, () => {
    assert.throws(() => withLabels({ big: 'x'.repeat(65537) }, never), /longer than 64 KiB/);
    assert.throws(() => withLabels({ ['k'.repeat(1025)]: '' }, never), /longer than 1,024 bytes/);
    const many = Object.fromEntries(Array.from({ length: 4097 }, (_, i) => [`many${i}`, '']));
    assert.throws(() => withLabels(many, never), /more than 4,096 labels/);
    shows(acme);
  });
  withLabels({ big: 'x'.repeat(65536) }, () => assert.equal(shown().big.length, 65536));
});

test('promises, thenables, generators and streams', async () => {
  const slow = async () => { for (let i = 0; i < 3; ++i) await null; };
  const thenable = { then(resolve) { shows(acme); setImmediate(resolve); } };
  async function* numbers() { for (let i = 0; i < 3; ++i) { await sleep(1); shows(acme); yield i; } }
  const work = withLabels(acme, async () => {
    await slow();
    shows(acme);
    await thenable;
    shows(acme);
    for await (const _ of numbers()) shows(acme);
    for await (const _ of Readable.from(['a', 'b'])) shows(acme);
    await slow().then(() => shows(acme)).finally(() => shows(acme));
  });
  shows({});
  let over = false;
  const others = (async () => { while (!over) { await null; shows({}); await sleep(0); shows({}); } })();
  await work.finally(() => { over = true; });
  await others;
  shows({});
});

test('a callback belongs to who asked for it, not to who calls it', () => {
  const emitter = new EventEmitter();
  const resource = withLabels(acme, () => new AsyncResource('pool'));
  const snapshot = withLabels(acme, () => AsyncLocalStorage.snapshot());
  const bound = withLabels(acme, () => AsyncResource.bind(() => shows(acme)));
  const free = new AsyncResource('free');
  emitter.on('plain', () => shows(globex));
  emitter.on('bound', withLabels(acme, () => bindLabels(function (x) {
    assert.equal(this, emitter);
    assert.equal(x, 7);
    shows(acme);
  })));
  withLabels(globex, () => {
    resource.runInAsyncScope(() => {
      shows(acme);
      free.runInAsyncScope(() => { shows({}); });
      shows(acme);
    });
    shows(globex);
    snapshot(() => shows(acme));
    shows(globex);
    bound();
    emitter.emit('plain');
    emitter.emit('bound', 7);
    assert.throws(() => resource.runInAsyncScope(() => { throw new Error(); }));
    shows(globex);
  });
  shows({});
});

test('another module\'s AsyncLocalStorage goes its own way', async () => {
  const other = new AsyncLocalStorage();
  await withLabels(acme, () => other.run('x', async () => {
    await null;
    shows(acme);
    other.exit(() => shows(acme));
    other.enterWith('y');
    await sleep(1);
    shows(acme);
    assert.equal(other.getStore(), 'y');
  }));
  shows({});
});

test('many sets, and the garbage collector', async () => {
  const { setFlagsFromString } = require('node:v8');
  setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc');
  await Promise.all(Array.from({ length: 200 }, (_, i) => withLabels({ i: `${i}` }, async () => {
    for (let turn = 0; turn < 3; ++turn) {
      await sleep(turn);
      if (i % 50 === 0) collect();
      withLabels({ turn: `${turn}`.repeat(1000) }, () => shows({ i: `${i}`, turn: `${turn}`.repeat(1000) }));
      shows({ i: `${i}` });
    }
  })));
  shows({});
});

test('sets that nobody holds are used again', async () => {
  const churn = async () => {
    for (let i = 0; i < 20_000; ++i) {
      withLabels({ id: `${i}`.padEnd(2000, 'x') }, () => {});
      if (i % 1000 === 0) await sleep(0);  // finalizers run between callbacks
    }
  };
  await churn();
  const before = process.memoryUsage.rss();
  for (let i = 0; i < 3; ++i) await churn();  // 120 MB of sets
  const grown = process.memoryUsage.rss() - before;
  assert.ok(grown < 60e6, `${grown} bytes more`);
});

/** Programs of their own: node:test has hooks that get in their way. */
function runs(program) {
  const { spawnSync } = require('node:child_process');
  const { status, stderr } = spawnSync(process.execPath, [require.resolve(program)]);
  assert.equal(status, 0, String(stderr));
}
test('errors that nobody caught leave nothing on display', () => runs('./uncaught.js'));
test('what is terminated in the middle is over', () => runs('./terminated.js'));
