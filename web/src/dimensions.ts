// What a key says of each sample: a label's value, or what the profile itself knows under that name.
import type { Profile } from './data';

export interface Dimension {
  key: string;
  /** Distinct values, in the order in which samples first have them. */
  values: string[];
  /** Per sample, an index of values; -1: the sample has no such key. */
  of: Int32Array;
}

/** Keys that every profile has; where a sample has a label of the same name, that is meant. */
export const builtIn = ['process', 'thread', 'pid', 'tid', 'cpu', 'trace_id', 'span_id'] as const;

export class Dimensions {
  /** Keys of labels, then those of builtIn that have more than nothing to say. */
  readonly keys: string[];
  readonly labelKeys: string[];
  private readonly known = new Map<string, Dimension>();

  constructor(private readonly profile: Profile) {
    const labels = new Set<string>();
    for (const set of profile.labelSets) for (const key of set.keys()) labels.add(key);
    this.labelKeys = [...labels].sort();
    this.keys = [
      ...this.labelKeys,
      ...builtIn.filter((key) => !labels.has(key) && this.get(key).values.length > 0),
    ];
  }

  get(key: string): Dimension {
    let dimension = this.known.get(key);
    if (!dimension) this.known.set(key, (dimension = this.compute(key)));
    return dimension;
  }

  private compute(key: string): Dimension {
    const { labelSets, samples } = this.profile;
    const column = (index: Int32Array, table: readonly (string | undefined)[]): Dimension => {
      const ids = new Map<string, number>();
      const values: string[] = [];
      const id = table.map((value) => {
        if (value === undefined) return -1;
        let known = ids.get(value);
        if (known === undefined) ids.set(value, (known = values.push(value) - 1));
        return known;
      });
      return { key, values, of: index.map((i) => (i < 0 ? -1 : id[i])) };
    };
    const fromLabels = column(samples.labels, labelSets.map((set) => set.get(key)));
    const own = this.ownOf(key, column);
    return own ? either(fromLabels, own) : fromLabels;
  }

  /** What the profile itself knows under that name. */
  private ownOf(key: string, column: (index: Int32Array, table: readonly string[]) => Dimension): Dimension | undefined {
    const { samples, processes, threads, links } = this.profile;
    switch (key) {
      case 'process':
        return column(samples.process, processes.map((p) => p.command));
      case 'pid':
        return column(samples.process, processes.map((p) => String(p.pid)));
      case 'thread':
        return column(samples.thread, threads.map((t) => t.name));
      case 'tid':
        return column(samples.thread, threads.map((t) => String(t.tid)));
      case 'trace_id':
        return column(samples.link, links.map((l) => l.trace));
      case 'span_id':
        return column(samples.link, links.map((l) => l.span));
      case 'cpu': {
        const most = samples.cpu.reduce((a, b) => Math.max(a, b), -1);
        return column(samples.cpu, Array.from({ length: most + 1 }, (_, i) => String(i)));
      }
      default:
        return undefined;
    }
  }
}

/** The first where it says something, else the second. */
function either(first: Dimension, second: Dimension): Dimension {
  if (first.values.length === 0) return second;
  const values = [...first.values];
  const ids = second.values.map((value) => {
    const known = first.values.indexOf(value);
    return known >= 0 ? known : values.push(value) - 1;
  });
  return { key: first.key, values, of: first.of.map((id, i) => (id >= 0 || second.of[i] < 0 ? id : ids[second.of[i]])) };
}

/** What a sample without the key is shown under. */
export const noValue = '(none)';

export function valueName(dimension: Dimension, id: number): string {
  return id < 0 ? noValue : dimension.values[id];
}
