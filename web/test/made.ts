// Profiles for tests, from stacks spelled as "main;serve:12;render:40", with lines where they matter.
import { decode, type Profile } from '../src/data';

export interface Made {
  stack: string;
  value: number;
  labels?: Record<string, string>;
  offCpu?: boolean;
  time?: number;
  /** How many samples it is the sum of. */
  count?: number;
}

export function profile(samples: Made[], durationNs = 1e9): Profile {
  const strings: string[] = [];
  const text = (s: string) => (strings.includes(s) ? strings.indexOf(s) : strings.push(s) - 1);
  const frames: string[] = [];
  const nodes: { frame: number; parent: number; key: string; line: number }[] = [];
  const sets: Record<string, string>[] = [];
  const rows = samples.map((sample) => {
    let node = -1;
    for (const spelled of sample.stack.split(';').filter(Boolean)) {
      const [name, line = '0'] = spelled.split(':');
      if (!frames.includes(name)) frames.push(name);
      const key = `${node}/${spelled}`;
      let next = nodes.findIndex((n) => n.key === key);
      if (next < 0) next = nodes.push({ frame: frames.indexOf(name), parent: node, key, line: +line }) - 1;
      node = next;
    }
    return { ...sample, node, set: sample.labels ? sets.push(sample.labels) - 1 : -1, time: sample.time ?? 0 };
  });
  const each = <T>(f: (row: (typeof rows)[0], i: number) => T) => rows.map(f);
  const zero = frames.map(() => 0);
  const none = frames.map(() => -1);
  const entries = sets.flatMap((set) => Object.entries(set));
  return decode(
    JSON.stringify({
      version: 1, title: 'test', start_ms: 0, duration_ns: durationNs, frequency: 100, group_by: [],
      remarks: [],
      frames: { name: frames.map(text), module: none, source: none, problem: none, line: zero, kind: zero, inlined: zero },
      nodes: {
        frame: nodes.map((n) => n.frame), up: nodes.map((n, i) => (n.parent < 0 ? 0 : i - n.parent)),
        ...(nodes.some((n) => n.line > 0) && { line: nodes.map((n) => n.line) }),
      },
      label_sets: {
        size: sets.map((set) => Object.keys(set).length),
        key: entries.map(([key]) => text(key)),
        value: entries.map(([, value]) => text(value)),
      },
      links: { trace: [], span: [] },
      processes: { pid: [7], command: [text('shop')], executable: [text('/opt/shop')] },
      threads: { tid: [8], name: [text('worker')] },
      samples: {
        time_us: each((row, i) => row.time - (rows[i - 1]?.time ?? 0)),
        value_ns: each((row) => row.value),
        off_cpu: each((row) => (row.offCpu ? 1 : 0)),
        node: each((row) => row.node),
        labels: each((row) => row.set),
        ...(samples.some((row) => row.count) && { count: each((row) => row.count ?? 1) }),
        process: each(() => 0), thread: each(() => 0), cpu: each(() => 0), link: each(() => -1),
      },
      strings,
    }),
  );
}
