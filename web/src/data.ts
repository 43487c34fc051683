// The profile inside the page. The one home, on this side, of the layout that src/profile/html.cpp
// describes and writes (version 1).

type Column = number[];

interface Document {
  version: number;
  title: string;
  start_ms: number;
  duration_ns: number;
  frequency: number;
  group_by: string[];
  compare?: string[];
  remarks: string[];
  strings: string[];
  frames: Record<'name' | 'module' | 'source' | 'problem' | 'line' | 'kind' | 'inlined', Column>;
  nodes: { frame: Column; up: Column; line?: Column };
  label_sets: { size: Column; key: Column; value: Column };
  links: { trace: Column; span: Column };
  processes: { pid: Column; command: Column; executable: Column };
  threads: { tid: Column; name: Column };
  samples: Record<
    'time_us' | 'value_ns' | 'off_cpu' | 'node' | 'labels' | 'process' | 'thread' | 'cpu' | 'link',
    Column
  > & { count?: Column };
}

export enum Kind {
  native,
  kernel,
  jit,
  unknown,
  notWhole,
}

/** What a stack is made of: a function, inlined or not, of a module. */
export interface Frame {
  name: string;
  module: string;
  source: string;
  /** Where it begins; 0: not known. */
  line: number;
  problem: string;
  kind: Kind;
  inlined: boolean;
}

/** Columns of one length; a row is a sample, or the sum of several, by time. */
export interface Samples {
  count: number;
  /** Microseconds since the start of the profile. */
  time: Float64Array;
  /** Nanoseconds. */
  value: Float64Array;
  /** How many samples the row is the sum of. */
  taken: Float64Array;
  offCpu: Uint8Array;
  /** Of the innermost frame; -1: no stack. */
  node: Int32Array;
  labels: Int32Array;
  process: Int32Array;
  thread: Int32Array;
  cpu: Int32Array;
  link: Int32Array;
}

/** What is known of a profile without its samples: the page has this, its worker all. */
export interface Head {
  title: string;
  startMs: number;
  durationNs: number;
  frequency: number;
  groupBy: string[];
  /** A key and two values of it that are compared at first; empty: none. */
  compare: string[];
  /** What was lost, and what else went wrong. */
  remarks: string[];
  frames: Frame[];
}

export interface Profile extends Head {
  /** All stacks as one tree, parents before children; -1: a root. `line`, where any is known, is the line that
   * was executed; 0: not known. Nodes below one parent may differ in it alone. */
  nodes: { frame: Int32Array; parent: Int32Array; line?: Int32Array };
  labelSets: Map<string, string>[];
  links: { trace: string; span: string }[];
  processes: { pid: number; command: string; executable: string }[];
  threads: { tid: number; name: string }[];
  samples: Samples;
}

/** Throws an Error that says why, where `json` is no such document. */
export function decode(json: string): Profile {
  const document = JSON.parse(json) as Document;
  if (document.version !== 1) throw new Error('this page does not hold a profile of version 1');
  const { strings, frames, nodes, samples } = document;
  const text = (index: number) => strings[index] ?? '';

  const parent = new Int32Array(nodes.up.length);
  for (let i = 0; i < parent.length; i++) parent[i] = nodes.up[i] === 0 ? -1 : i - nodes.up[i];

  const time = new Float64Array(samples.time_us.length);
  for (let i = 0, at = 0; i < time.length; i++) time[i] = at += samples.time_us[i];

  return {
    title: document.title,
    startMs: document.start_ms,
    durationNs: document.duration_ns,
    frequency: document.frequency,
    groupBy: document.group_by,
    compare: document.compare ?? [],
    remarks: document.remarks,
    frames: frames.name.map((name, i) => ({
      name: text(name),
      module: text(frames.module[i]),
      source: text(frames.source[i]),
      line: frames.line[i],
      problem: text(frames.problem[i]),
      kind: frames.kind[i],
      inlined: frames.inlined[i] === 1,
    })),
    nodes: { frame: Int32Array.from(nodes.frame), parent, line: nodes.line && Int32Array.from(nodes.line) },
    labelSets: labelSets(document, text),
    links: document.links.trace.map((trace, i) => ({ trace: text(trace), span: text(document.links.span[i]) })),
    processes: document.processes.pid.map((pid, i) => ({
      pid,
      command: text(document.processes.command[i]),
      executable: text(document.processes.executable[i]),
    })),
    threads: document.threads.tid.map((tid, i) => ({ tid, name: text(document.threads.name[i]) })),
    samples: {
      count: time.length,
      time,
      value: Float64Array.from(samples.value_ns),
      taken: samples.count ? Float64Array.from(samples.count) : new Float64Array(time.length).fill(1),
      offCpu: Uint8Array.from(samples.off_cpu),
      node: Int32Array.from(samples.node),
      labels: Int32Array.from(samples.labels),
      process: Int32Array.from(samples.process),
      thread: Int32Array.from(samples.thread),
      // Numbers of processors are bounded: a table is made of them.
      cpu: Int32Array.from(samples.cpu, (cpu) => (cpu < 0x1_0000 ? cpu : -1)),
      link: Int32Array.from(samples.link),
    },
  };
}

/** What has to do with frames alone. */
export type WithFrames = Pick<Head, 'frames'>;

function labelSets(document: Document, text: (index: number) => string): Map<string, string>[] {
  const { size, key, value } = document.label_sets;
  let at = 0;
  return size.map((entries) => {
    const set = new Map<string, string>();
    for (const end = at + entries; at < end; at++) set.set(text(key[at]), text(value[at]));
    return set;
  });
}
