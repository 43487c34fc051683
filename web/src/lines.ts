// Lines of source that were executed in a frame of a tree, by the time in them and in what they called.
import type { Profile } from './data';
import { each, type Work } from './slices';
import type { Built } from './tree';

export interface LineRow {
  source: string;
  line: number;
  /** Nanoseconds, of each side. */
  time: number[];
}

export interface Lines {
  /** The most time first, `mostLines` of them; those whose line is not known are not in it. */
  rows: LineRow[];
  /** How many lines there are besides. */
  more: number;
}

export const mostLines = 5;

/** Of frame `i`, which stands for a function of the profile. */
export function* linesOf(profile: Profile, { tree, stacks, levels, samples, until, ends }: Built, i: number): Work<Lines> {
  const { frame, parent, line } = profile.nodes;
  if (!line || tree.what[i] < 0) return { rows: [], more: 0 };
  const name = profile.frames[tree.what[i]].name;
  const depth = tree.depth[i] - levels;
  const { node, value } = profile.samples;
  const rows = new Map<string, LineRow>();
  // Samples that end at one node have one line here.
  const rowOf = new Map<number, LineRow | undefined>();
  const row = (leaf: number, end: number) => {
    let at = leaf;
    for (let up = stacks.up(leaf, end, depth); up > 0 && at >= 0; up--) at = parent[at];
    if (at < 0 || line[at] === 0 || profile.frames[frame[at]].name !== name) return undefined;
    const { source } = profile.frames[frame[at]];
    const key = `${line[at]} ${source}`;
    const known = rows.get(key) ?? { source, line: line[at], time: until.map(() => 0) };
    rows.set(key, known);
    return known;
  };
  let from = 0;
  for (const [s, to] of until.entries()) {
    yield* each(to - from, (offset) => {
      const end = ends[from + offset];
      if (end < i || end >= tree.end[i]) return;
      const sample = samples[from + offset];
      const leaf = node[sample];
      if (leaf < 0) return;
      if (!rowOf.has(leaf)) rowOf.set(leaf, row(leaf, tree.depth[end] - levels));
      const of = rowOf.get(leaf);
      if (of) of.time[s] += value[sample];
    });
    from = to;
  }
  const weight = ({ time }: LineRow) => time.reduce((sum, ns, s) => sum + (tree.sides[s].total[0] > 0 ? ns / tree.sides[s].total[0] : 0), 0);
  const all = [...rows.values()].sort((a, b) => weight(b) - weight(a) || a.line - b.line);
  return { rows: all.slice(0, mostLines), more: Math.max(0, all.length - mostLines) };
}
