'use strict';
// A program to look at from outside: node subject.js SCENARIO [MODE].
//
// Where it calls look() it prints, as JSON, what should be on display on each labelled thread, and goes no
// further until the observer answers: blocked, or for samplers of CPUs running.
const fs = require('node:fs');
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const { Worker } = require('node:worker_threads');
const { withLabels, withTrace, bindLabels, publishContext } = require('../index.js');

const [, , scenario, mode] = process.argv;
const answered = process.env.ANSWERED;  // a file, for those who must not block

/** `threads`: a list of label sets, one for each labelled thread; or the one of this thread. */
function look(threads) {
  const expected = Array.isArray(threads) ? threads : [threads].filter((set) => Object.keys(set).length > 0);
  fs.writeSync(1, `${JSON.stringify({ expected })}\n`);
  if (mode === 'ebpf') {
    while (!fs.existsSync(answered));
    fs.unlinkSync(answered);
  } else {
    fs.readSync(0, Buffer.alloc(1));
  }
}

const acme = { tenant: 'acme' };
const globex = { tenant: 'globex' };

const scenarios = {
  async await() {
    look({});
    await withLabels(acme, async () => {
      await sleep(1);
      look(acme);
      await withLabels({ route: '/checkout', tenant: 'inner' }, async () => {
        await fs.promises.stat('/');
        look({ tenant: 'inner', route: '/checkout' });
        throw new Error('on purpose');
      }).catch(() => {});
      look(acme);
    });
    look({});
  },

  async parallel() {
    const turns = (labels) => withLabels(labels, async () => {
      for (let i = 0; i < 2; ++i) {
        await sleep(1);
        look(labels);
      }
    });
    await Promise.all([turns(acme), sleep(1).then(() => look({})), turns(globex)]);
  },

  async timers() {
    const called = (start) => new Promise((resolve) => start(() => {
      look(acme);
      resolve();
    }));
    const all = withLabels(acme, () => [
      called((then) => setTimeout(then, 1)), called(setImmediate), called(process.nextTick),
      called((then) => { const timer = setInterval(() => { clearInterval(timer); then(); }, 1); })]);
    look({});
    await Promise.all(all);
    await new Promise((resolve) => setTimeout(() => { look({}); resolve(); }, 1));
  },

  async server() {
    const server = http.createServer((request, response) => {
      withLabels({ route: request.url }, async () => {
        for await (const _ of request);  // its end is told from the socket's own context
        await sleep(1);
        look({ route: request.url });
        response.end();
      });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    for (const path of ['/a', '/b'])
      await fetch(`http://127.0.0.1:${server.address().port}${path}`, { method: 'POST', body: 'x' })
        .then((response) => response.text());
    look({});
    server.close();
    server.closeAllConnections();
  },

  /** Labelled work that waits is not in force. (Looked at when the thread waits for events.) */
  async idle() {
    await withLabels(acme, () => new Promise((resolve) => {
      process.stdin.once('data', resolve);
      setTimeout(() => fs.writeSync(1, `${JSON.stringify({ expected: [], idle: true })}\n`), 1);
    }));
  },

  bind() {
    const bound = withLabels(acme, () => bindLabels(() => look(acme)));
    withLabels(globex, () => {
      bound();
      look(globex);
    });
    const free = bindLabels(() => look({}));
    withLabels(acme, free);
  },

  trace() {
    const trace = { traceId: '000102030405060708090a0b0c0d0e0f', spanId: '1011121314151617', traceFlags: 1 };
    withTrace(trace, acme, () => look({ ...acme, trace_id: trace.traceId, span_id: trace.spanId }));
  },

  async workers() {
    const waiting = new SharedArrayBuffer(4);  // 1: all go on
    const ready = new SharedArrayBuffer(4);
    const work = `
      const { workerData: { labels, waiting, ready, index, spin } } = require('node:worker_threads');
      const { withLabels } = require(index);
      withLabels(labels, async () => {
        await null;
        Atomics.add(new Int32Array(ready), 0, 1);
        Atomics.notify(new Int32Array(ready), 0);
        if (spin) while (Atomics.load(new Int32Array(waiting), 0) === 0);
        else Atomics.wait(new Int32Array(waiting), 0, 0);
      });`;
    const workers = [{ worker: 'one' }, { worker: 'two', tenant: 'acme' }].map((labels) => new Worker(work, {
      eval: true,
      workerData: { labels, waiting, ready, index: require.resolve('../index.js'), spin: mode === 'ebpf' },
    }));
    const exits = workers.map((worker) => new Promise((resolve) => worker.once('exit', resolve)));
    for (let there = 0; there < 2; there = Atomics.load(new Int32Array(ready), 0)) await sleep(5);
    withLabels(globex, () => look([{ worker: 'one' }, { worker: 'two', tenant: 'acme' }, globex]));
    Atomics.store(new Int32Array(waiting), 0, 1);
    Atomics.notify(new Int32Array(waiting), 0);
    await Promise.all(exits);
    look({});
  },

  /** A worker that is ended in the middle of labelled work takes its labels along. */
  async terminated() {
    const ready = new SharedArrayBuffer(4);
    const worker = new Worker(`
      const { workerData: { ready, index } } = require('node:worker_threads');
      require(index).withLabels({ worker: 'ended' }, () => {
        Atomics.store(new Int32Array(ready), 0, 1);
        for (;;);
      });`, { eval: true, workerData: { ready, index: require.resolve('../index.js') } });
    while (Atomics.load(new Int32Array(ready), 0) === 0) await sleep(5);
    await worker.terminate();
    look({});
    withLabels(acme, () => look(acme));
  },

  context() {
    const resource = { 'service.name': 'shop', shards: 3, ratio: 0.5, canary: true };
    publishContext(resource);
    fs.writeSync(1, `${JSON.stringify(resource)}\n`);
    fs.readSync(0, Buffer.alloc(1));
  },

  /** For profilers: two tenants, in turns, until standard input ends. */
  async busy() {
    fs.writeSync(1, 'busy\n');
    let over = false;
    process.stdin.on('end', () => { over = true; }).resume();
    const spin = (labels) => withLabels(labels, async () => {
      while (!over) {
        for (const end = Date.now() + 5; Date.now() < end;);
        await new Promise(setImmediate);
      }
    });
    await Promise.all([spin(acme), spin(globex)]);
  },
};

Promise.resolve(scenarios[scenario]()).then(() => process.exit(0));
