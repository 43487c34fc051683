// What a key says of each sample: a label's value, or what the profile itself knows under that name.
import type { Profile } from './data';
import { each, type Work } from './slices';

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
    this.keys = [...this.labelKeys, ...builtIn.filter((key) => !labels.has(key) && this.hasOwn(key))];
  }

  *get(key: string): Work<Dimension> {
    let dimension = this.known.get(key);
    if (!dimension) {
      dimension = yield* this.compute(key);
      this.known.set(key, dimension);
    }
    return dimension;
  }

  private hasOwn(key: string): boolean {
    const own = this.ownOf(key);
    return own !== undefined && own.index.some((i) => i >= 0);
  }

  private *compute(key: string): Work<Dimension> {
    const { labelSets, samples } = this.profile;
    const fromLabels = yield* column(key, { index: samples.labels, size: labelSets.length, at: (i) => labelSets[i].get(key) });
    const own = this.ownOf(key);
    return own ? yield* either(fromLabels, yield* column(key, own)) : fromLabels;
  }

  /** What the profile itself knows under that name. */
  private ownOf(key: string): Table | undefined {
    const { samples, processes, threads, links } = this.profile;
    const table = <T>(index: Int32Array, rows: readonly T[], text: (row: T) => string) => ({
      index, size: rows.length, at: (i: number) => text(rows[i]),
    });
    switch (key) {
      case 'process':
        return table(samples.process, processes, (p) => p.command);
      case 'pid':
        return table(samples.process, processes, (p) => String(p.pid));
      case 'thread':
        return table(samples.thread, threads, (t) => t.name);
      case 'tid':
        return table(samples.thread, threads, (t) => String(t.tid));
      case 'trace_id':
        return table(samples.link, links, (l) => l.trace);
      case 'span_id':
        return table(samples.link, links, (l) => l.span);
      case 'cpu':
        return { index: samples.cpu, size: samples.cpu.reduce((a, b) => Math.max(a, b), -1) + 1, at: String };
      default:
        return undefined;
    }
  }
}

/** Texts, or none, and which of them each sample has. */
interface Table {
  index: Int32Array;
  size: number;
  at: (row: number) => string | undefined;
}

function* column(key: string, { index, size, at }: Table): Work<Dimension> {
  const ids = new Map<string, number>();
  const values: string[] = [];
  const id = new Int32Array(size);
  yield* each(size, (i) => {
    const value = at(i);
    let known = value === undefined ? -1 : ids.get(value);
    if (known === undefined) ids.set(value!, (known = values.push(value!) - 1));
    id[i] = known;
  });
  const of = new Int32Array(index.length);
  yield* each(index.length, (i) => (of[i] = index[i] < 0 ? -1 : id[index[i]]));
  return { key, values, of };
}

/** The first where it says something, else the second. */
function* either(first: Dimension, second: Dimension): Work<Dimension> {
  if (first.values.length === 0) return second;
  const values = [...first.values];
  const known = new Map(values.map((value, id) => [value, id]));
  const ids = second.values.map((value) => known.get(value) ?? values.push(value) - 1);
  const of = first.of.slice();
  yield* each(of.length, (i) => {
    if (of[i] < 0 && second.of[i] >= 0) of[i] = ids[second.of[i]];
  });
  return { key: first.key, values, of };
}

/** What a sample without the key is shown under. */
export const noValue = '(none)';

/** A value as it is shown, no two the same: one that reads like noValue is in quotes, and so is that one in quotes. */
export function valueName(dimension: Dimension, id: number): string {
  return id < 0 ? noValue : shownValue(dimension.values[id]);
}

export function shownValue(value: string): string {
  return value.replace(/^("*)\(none\)\1$/, '"$&"');
}
