// Connection to what the page asks about a profile: the one place that looks at all samples. Runs in a
// worker (see client.ts), so that the page takes input meanwhile. What several queries need is kept,
// as long as it is of the same selection.
import { decode, type Head, type Profile } from './data';
import { Dimensions } from './dimensions';
import { linesOf, type Lines } from './lines';
import { callees, callers, fromLeaves, fromRoots, type Stacks } from './perspective';
import { matcher, search, type Found } from './search';
import { select, split, sum, type Compare, type Measure, type Scope, type Total } from './select';
import type { Work } from './slices';
import { functions, values, type FunctionRow, type ValueRow } from './tables';
import { hasTimes, lengthOf, overTime } from './timeline';
import { build, follow, forDrawing, type Built, type Tree } from './tree';

/** What the page knows of every profile at once. */
export interface Overview extends Head {
  /** That some sample is of. */
  measures: Measure[];
  keys: string[];
  labelKeys: string[];
  /** By the time in them. */
  modules: string[];
  hasSamples: boolean;
  hasTimes: boolean;
  /** Some frame has a line that was executed. */
  hasLines: boolean;
  /** Microseconds. */
  length: number;
}

export interface Sorting {
  by: string;
  down: boolean;
}

/** Part of a table: rows that match the search, sorted, as many as `limit` says. */
interface Part {
  search: string;
  sorting: Sorting;
  limit: number;
}

interface Grouping {
  groupBy: readonly string[];
  compare?: Compare;
}

/** What a graph is of. */
export type Rooted = Scope & Grouping & { inverted: boolean };
/** Part of what is around a function. */
export type Half = Scope & { half: 'callers' | 'callees'; name: string };

export interface Picture {
  tree: Tree;
  found?: Found;
}

export interface Rows<Row> {
  rows: Row[];
  /** Of all that match. */
  count: number;
  /** Nanoseconds: of all samples that were chosen, for each side. */
  whole: number[];
}

/** Queries, by name: what each is of, and what its result is. */
export interface Queries {
  /** Without and with filter and range. */
  totals: { of: Scope; is: { all: Total; chosen: Total } };
  /** The same, in each of so many parts of the profile's time. */
  times: { of: Scope & { bins: number }; is: { all: Float64Array; chosen: Float64Array } };
  values: { of: Scope & Part & { key: string }; is: Rows<ValueRow> };
  names: { of: { key: string }; is: string[] };
  functions: { of: Scope & Grouping & Part; is: Rows<FunctionRow> };
  /** `zoom` as in State. */
  graph: { of: Rooted & { zoom: readonly number[]; search: string }; is: Picture };
  /** `name` is empty for the function with the most time of its own. */
  around: {
    of: Scope & { name: string; search: string };
    is: {
      name: string; offered: string[]; total: number; self: number; whole: number;
      callers: Picture; callees: Picture; lines: Lines;
    };
  };
  /** Of the frame of a graph, or of a half of what is around a function, to which `path` leads (as State.zoom). */
  lines: { of: { tree: Rooted | Half; path: readonly number[] }; is: Lines };
}

export type Query = { [K in keyof Queries]: { name: K; of: Queries[K]['of'] } }[keyof Queries];

/** Names that are offered for completion; any other can be typed. */
const mostOffered = 500;

const valueOrder: Record<string, (a: ValueRow, b: ValueRow) => number> = {
  value: (a, b) => b.value.localeCompare(a.value),
  time: (a, b) => a.time - b.time,
  samples: (a, b) => a.samples - b.samples,
};

export class Engine {
  readonly profile: Profile;
  private readonly dimensions: Dimensions;
  private readonly kept = new Map<string, Map<string, unknown>>();

  /** Throws an Error that says why, where `json` is no profile. */
  constructor(json: string) {
    this.profile = decode(json);
    this.dimensions = new Dimensions(this.profile);
  }

  overview(): Overview {
    const { title, startMs, durationNs, frequency, groupBy, compare, remarks, frames, samples } = this.profile;
    return {
      title, startMs, durationNs, frequency, groupBy, compare, remarks, frames,
      measures: [...(samples.offCpu.includes(0) ? ['cpu' as const] : []), ...(samples.offCpu.includes(1) ? ['off' as const] : [])],
      keys: this.dimensions.keys,
      labelKeys: this.dimensions.labelKeys,
      modules: modulesByTime(this.profile),
      hasSamples: samples.count > 0,
      hasTimes: hasTimes(this.profile),
      hasLines: this.profile.nodes.line !== undefined,
      length: lengthOf(this.profile),
    };
  }

  result<K extends keyof Queries>(name: K, of: Queries[K]['of']): Work<Queries[K]['is']> {
    const makers: { [Q in keyof Queries]: (of: Queries[Q]['of']) => Work<Queries[Q]['is']> } = {
      totals: (of) => this.totals(of),
      times: (of) => this.times(of),
      values: (of) => this.values(of),
      names: (of) => this.names(of.key),
      functions: (of) => this.functions(of),
      graph: (of) => this.graph(of),
      around: (of) => this.around(of),
      lines: (of) => this.lines(of),
    };
    return makers[name](of);
  }

  /** The value that was made of the same under `name`, if it is among the last `most`; else a new one. */
  private *once<T>(name: string, of: unknown, make: () => Work<T>, most = 1): Work<T> {
    const key = JSON.stringify(of);
    const kept = this.kept.get(name) ?? new Map<string, unknown>();
    this.kept.set(name, kept);
    const before = kept.get(key) as T | undefined;
    kept.delete(key);
    // The memory of the eldest is free while the new one is made.
    if (kept.size >= most) kept.delete(kept.keys().next().value!);
    const value = before ?? (yield* make());
    kept.set(key, value);
    return value;
  }

  /** Of the view, and of values that leave out the terms on their own key. */
  private chosen({ measure, terms, range }: Scope): Work<Int32Array> {
    const of = { measure, terms, range };
    return this.once('chosen', of, () => select(this.profile, this.dimensions, of), 4);
  }

  private all(measure: Measure): Work<Int32Array> {
    return this.chosen({ measure, terms: [] });
  }

  private *totals(of: Queries['totals']['of']): Work<Queries['totals']['is']> {
    const all = yield* this.all(of.measure);
    const chosen = yield* this.chosen(of);
    return { all: yield* sum(this.profile, all), chosen: yield* sum(this.profile, chosen) };
  }

  private *times(of: Queries['times']['of']): Work<Queries['times']['is']> {
    const { measure, bins } = of;
    const all = yield* this.all(measure);
    const chosen = yield* this.chosen(of);
    return {
      all: yield* this.once('times', { measure, bins }, () => overTime(this.profile, all, bins)),
      chosen: yield* overTime(this.profile, chosen, bins),
    };
  }

  private *values(of: Queries['values']['of']): Work<Rows<ValueRow>> {
    const { key } = of;
    const rows = yield* values(this.profile, yield* this.dimensions.get(key), yield* this.chosen(of));
    const whole = rows.reduce((sum, row) => sum + row.time, 0);
    return part(rows, of, (row, matches) => matches(row.value), valueOrder[of.sorting.by], [whole]);
  }

  private *names(key: string): Work<string[]> {
    return (yield* this.dimensions.get(key)).values;
  }

  private *tree(of: Rooted): Work<Built> {
    const { measure, terms, range, groupBy, compare, inverted } = of;
    const { profile, dimensions } = this;
    return yield* this.once('tree', { measure, terms, range, groupBy, compare, inverted }, function* (this: Engine) {
      const chosen = yield* this.chosen(of);
      const sides = compare ? yield* split(dimensions, chosen, compare) : [chosen];
      // A side has one value of the key that sides are made of: as a group it would say nothing.
      const groups = [];
      for (const key of groupBy) if (key !== compare?.key) groups.push(yield* dimensions.get(key));
      if (!inverted) return yield* build(profile, groups, sides, yield* this.roots());
      const stacks = yield* this.once('from leaves', '', () => fromLeaves(profile));
      // Samples without any frame are part of the whole either way.
      return yield* build(profile, groups, sides, stacks, false);
    }.bind(this));
  }

  private roots(): Work<Stacks> {
    return this.once('from roots', '', () => fromRoots(this.profile));
  }

  private *half(of: Half): Work<Built> {
    const { measure, terms, range, half, name } = of;
    const { profile } = this;
    return yield* this.once(half, { measure, terms, range, name }, function* (this: Engine) {
      const stacks = yield* (half === 'callers' ? callers : callees)(profile, name);
      return yield* build(profile, [], [yield* this.chosen(of)], stacks);
    }.bind(this));
  }

  private *lines({ tree: of, path }: Queries['lines']['of']): Work<Lines> {
    const built = yield* ('half' in of ? this.half(of) : this.tree(of));
    return yield* linesOf(this.profile, built, follow(built.tree, path));
  }

  private *functions(of: Queries['functions']['of']): Work<Rows<FunctionRow>> {
    const { tree } = yield* this.tree({ ...of, inverted: false });
    const rows = yield* functions(this.profile, tree);
    const whole = tree.sides.map((side) => side.total[0]);
    const share = (row: FunctionRow, side: number) => (whole[side] > 0 ? row.total[side] / whole[side] : 0);
    const order: Record<string, (a: FunctionRow, b: FunctionRow) => number> = {
      name: (a, b) => b.name.localeCompare(a.name),
      self: (a, b) => a.self[0] - b.self[0],
      total: (a, b) => a.total[0] - b.total[0],
      self2: (a, b) => a.self[1] - b.self[1],
      total2: (a, b) => a.total[1] - b.total[1],
      difference: (a, b) => share(a, 0) - share(a, 1) - share(b, 0) + share(b, 1),
    };
    return part(rows, of, (row, matches) => matches(row.name) || matches(row.module), order[of.sorting.by], whole);
  }

  private *graph(of: Queries['graph']['of']): Work<Picture> {
    const { tree } = yield* this.tree(of);
    return yield* this.picture(tree, follow(tree, of.zoom), of.search);
  }

  private *picture(whole: Tree, zoom: number, text: string): Work<Picture> {
    const { tree, from } = yield* forDrawing(whole, zoom);
    const matches = matcher(text);
    if (typeof matches !== 'function') return { tree };
    const found = yield* search(this.profile, whole, matches);
    return { tree, found: { ...found, matches: Uint8Array.from(from, (i) => (i < 0 ? 0 : found.matches[i])) } };
  }

  private *around(of: Queries['around']['of']): Work<Queries['around']['is']> {
    const { profile } = this;
    const { measure, terms, range } = of;
    const chosen = yield* this.chosen(of);
    const { rows, whole } = yield* this.once('all functions', { measure, terms, range }, function* (this: Engine) {
      const { tree } = yield* build(profile, [], [chosen], yield* this.roots());
      return { rows: yield* functions(profile, tree), whole: tree.sides[0].total[0] };
    }.bind(this));
    const most = rows.reduce((best, row) => (best && best.self[0] >= row.self[0] ? best : row), rows[0]);
    const name = profile.frames.some((frame) => frame.name === of.name) ? of.name : (most?.name ?? '');
    const add = (time: (row: FunctionRow) => number) => rows.reduce((sum, row) => sum + (row.name === name ? time(row) : 0), 0);
    const above = yield* this.half({ measure, terms, range, half: 'callers', name });
    const below = yield* this.half({ measure, terms, range, half: 'callees', name });
    return {
      name, whole,
      offered: [...rows].sort((a, b) => b.total[0] - a.total[0]).slice(0, mostOffered).map((row) => row.name),
      total: add((row) => row.total[0]),
      self: add((row) => row.self[0]),
      callers: yield* this.picture(above.tree, 0, of.search),
      callees: yield* this.picture(below.tree, 0, of.search),
      lines: yield* linesOf(profile, below, Math.min(1, below.tree.size - 1)),
    };
  }
}

function part<Row>(
  all: readonly Row[],
  { search, sorting, limit }: Part,
  matching: (row: Row, matches: (text: string) => boolean) => boolean,
  order: ((a: Row, b: Row) => number) | undefined,
  whole: number[],
): Rows<Row> {
  const matches = matcher(search);
  const rows = typeof matches === 'function' ? all.filter((row) => matching(row, matches)) : [...all];
  if (order) rows.sort((a, b) => order(a, b) * (sorting.down ? -1 : 1));
  return { rows: rows.slice(0, limit), count: rows.length, whole };
}

function modulesByTime(profile: Profile): string[] {
  const { node, value } = profile.samples;
  const own = new Float64Array(profile.nodes.frame.length);
  node.forEach((n, i) => {
    if (n >= 0) own[n] += value[i];
  });
  const time = new Map<string, number>();
  profile.nodes.frame.forEach((frame, n) => {
    const { module, kind } = profile.frames[frame];
    if (kind === 0) time.set(module, (time.get(module) ?? 0) + own[n]);
  });
  return [...time].sort((a, b) => b[1] - a[1]).map(([module]) => module);
}
