// The same samples as tables: time by function, and by value of a key.
import type { Profile } from './data';
import { valueName, type Dimension } from './dimensions';
import { each, type Work } from './slices';
import type { Tree } from './tree';

export interface FunctionRow {
  name: string;
  module: string;
  /** A frame of the profile that stands for it. */
  frame: number;
  /** Per side, in nanoseconds: in it and below, each once; and in it alone. */
  total: number[];
  self: number[];
}

/** Functions: frames of one name and module, inlined or not. */
export function* functions(profile: Profile, tree: Tree): Work<FunctionRow[]> {
  const rows: FunctionRow[] = [];
  const byName = new Map<string, number>();
  const rowOf = profile.frames.map((frame, i) => {
    const name = `${frame.module}\0${frame.name}`;
    let row = byName.get(name);
    if (row === undefined) {
      row = rows.length;
      byName.set(name, row);
      const zero = () => tree.sides.map(() => 0);
      rows.push({ name: frame.name, module: frame.module, frame: i, total: zero(), self: zero() });
    }
    return row;
  });
  // How often a row is on the path to the frame at hand: time counts at the outermost only.
  const on = new Uint32Array(rows.length);
  const path: number[] = [];
  yield* each(tree.size, (i) => {
    while (path.length > 0 && tree.end[path[path.length - 1]] <= i) on[rowOf[tree.what[path.pop()!]]]--;
    if (tree.what[i] < 0) return;
    const row = rowOf[tree.what[i]];
    tree.sides.forEach((side, s) => {
      if (on[row] === 0) rows[row].total[s] += side.total[i];
      rows[row].self[s] += side.self[i];
    });
    on[row]++;
    path.push(i);
  });
  return rows.filter((row) => row.total.some((time) => time > 0));
}

export interface ValueRow {
  value: string;
  missing: boolean;
  /** As filters have it: none where it is missing. */
  choice: string | undefined;
  /** Nanoseconds, and samples. */
  time: number;
  samples: number;
}

/** The most time first; samples that lack the key are a row, too. */
export function* values(profile: Profile, dimension: Dimension, chosen: Int32Array): Work<ValueRow[]> {
  const none = dimension.values.length;
  const time = new Float64Array(none + 1);
  const samples = new Float64Array(none + 1);
  const { value: valueOf, taken } = profile.samples;
  yield* each(chosen.length, (at) => {
    const i = chosen[at];
    const id = dimension.of[i] < 0 ? none : dimension.of[i];
    time[id] += valueOf[i];
    samples[id] += taken[i];
  });
  const rows: ValueRow[] = [];
  yield* each(none + 1, (id) => {
    if (samples[id] === 0) return;
    const missing = id === none;
    const value = valueName(dimension, missing ? -1 : id);
    rows.push({ value, missing, choice: missing ? undefined : dimension.values[id], time: time[id], samples: samples[id] });
  });
  return rows.sort((a, b) => b.time - a.time || b.samples - a.samples);
}
