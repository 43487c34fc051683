'use strict';
// The labels of running Node processes, as `vitrine` reads them from outside.
const assert = require('node:assert/strict');
const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const test = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { promisify } = require('node:util');

const vitrine = process.env.VITRINE ?? path.join(__dirname, '../../../build/release/bin/vitrine');
const subject = path.join(__dirname, 'subject.js');

async function json(...args) {
  const { stdout } = await promisify(execFile)(vitrine, [...args, '--json'], { maxBuffer: 64 << 20 });
  return stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

/** Label sets in an order of their own, without the order of labels in them. */
const sorted = (sets) => sets.map((set) => JSON.stringify(Object.entries(set).sort())).sort();

/** The label sets on display in one format, the threads with none left out. */
function onDisplay(lines, format) {
  const shown = lines.filter((line) => line.format === format);
  assert.ok(shown.every((line) => line.error === undefined), JSON.stringify(shown));
  assert.ok(shown.every((line) => path.basename(line.module) === 'customlabels.node'), JSON.stringify(shown));
  return shown.filter((line) => line.labels.length > 0).map((line) => ({
    ...Object.fromEntries(line.labels.map(({ key, value }) => [key, value])),
    ...(line.trace_id && { trace_id: line.trace_id, span_id: line.span_id }),
  }));
}

const waitsForEvents = (pid) => /epoll|ep_poll/.test(fs.readFileSync(`/proc/${pid}/wchan`, 'utf8'));

async function readLabels(pid, mode, expected) {
  if (mode !== 'ebpf') return json('labels', `${pid}`, '--mode', mode);
  // What did not run was not sampled: again, until as many threads as run were.
  for (;;) {
    const lines = await json('labels', `${pid}`, '--mode', mode, '--duration', '300ms', '--freq', '499');
    const running = new Set(lines.map((line) => line.tid));
    if (running.has(pid) && running.size >= expected.length) return lines;
  }
}

/** Runs a scenario of the subject and compares what it says with what is read at each look. */
async function watch(scenario, mode) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vitrine-node-'));
  const answered = path.join(folder, 'answered');
  const child = spawn(process.execPath, [subject, scenario, mode],
    { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ANSWERED: answered } });
  const exited = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
  let looks = 0;
  try {
    for await (const line of readline.createInterface({ input: child.stdout })) {
      ++looks;
      const { expected, idle } = JSON.parse(line);
      while (idle && !waitsForEvents(child.pid)) await sleep(1);
      const lines = await readLabels(child.pid, mode, expected);
      for (const format of ['custom-labels-v1', 'otel-thread-ctx-v1'])
        assert.deepEqual(sorted(onDisplay(lines, format)), sorted(expected), `look ${looks}, ${format}`);
      if (mode === 'ebpf') fs.writeFileSync(answered, '');
      else child.stdin.write('\n');
    }
    assert.equal(await exited, 0);
    assert.ok(looks > 0);
  } finally {
    child.kill('SIGKILL');
    fs.rmSync(folder, { recursive: true });
  }
}

for (const mode of ['snapshot', 'ebpf', 'ptrace']) {
  test(`across await, read by ${mode}`, () => watch('await', mode));
  test(`worker threads, read by ${mode}`, () => watch('workers', mode));
}
for (const scenario of ['parallel', 'timers', 'idle', 'server', 'bind', 'trace', 'terminated'])
  test(scenario, () => watch(scenario, 'snapshot'));

test('the process context', async () => {
  const child = spawn(process.execPath, [subject, 'context'], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    const published = JSON.parse(await new Promise((resolve) => child.stdout.once('data', resolve)));
    const [{ resource }] = await json('context', `${child.pid}`);
    const shown = Object.fromEntries(resource.map(({ key, value }) => [key, value]));
    for (const [key, value] of Object.entries(published)) assert.equal(shown[key], value, key);
    assert.equal(shown['process.pid'], child.pid);
    assert.equal(shown['telemetry.sdk.language'], 'nodejs');
  } finally {
    child.kill('SIGKILL');
  }
});

test('a profile by label', async () => {
  const child = spawn(process.execPath, [subject, 'busy'], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const { stdout } = await promisify(execFile)(vitrine, ['profile', `${child.pid}`, '--duration', '1s',
      '--freq', '499', '--format', 'folded', '--group-by', 'tenant', '-o', '-'], { maxBuffer: 64 << 20 });
    for (const tenant of ['acme', 'globex']) assert.match(stdout, new RegExp(`^[^;]*${tenant}[^;]*;`, 'm'));
  } finally {
    child.kill('SIGKILL');
  }
});
