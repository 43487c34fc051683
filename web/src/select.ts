// Which samples are looked at: of a measure, in a range of time, where a filter holds.
import type { Profile } from './data';
import type { Dimensions } from './dimensions';
import { applyTo, type Term } from './filter';
import { each, type Work } from './slices';

export type Measure = 'cpu' | 'off';

/** Microseconds since the start; the end is not in it. */
export type Range = readonly [number, number];

/** Which samples: see filter.ts for the terms. */
export interface Scope {
  measure: Measure;
  terms: readonly Term[];
  range?: Range;
}

export function* select(profile: Profile, dimensions: Dimensions, { measure, terms, range }: Scope): Work<Int32Array> {
  const { count, offCpu, time } = profile.samples;
  const mask = new Uint8Array(count);
  const wanted = measure === 'off' ? 1 : 0;
  const [from, to] = range ?? [-Infinity, Infinity];
  yield* each(count, (i) => (mask[i] = offCpu[i] === wanted && time[i] >= from && time[i] < to ? 1 : 0));
  yield* applyTo(mask, terms, dimensions);
  return yield* where(count, (i) => mask[i] === 1, (i) => i);
}

/** What `get` says of those for which `is` holds. */
function* where(count: number, is: (i: number) => boolean, get: (i: number) => number): Work<Int32Array> {
  const all = new Int32Array(count);
  let found = 0;
  yield* each(count, (i) => {
    if (is(i)) all[found++] = get(i);
  });
  return all.slice(0, found);
}

export function keep(samples: Int32Array, is: (sample: number) => boolean): Work<Int32Array> {
  return where(samples.length, (i) => is(samples[i]), (i) => samples[i]);
}

/** Two groups of samples to compare. */
export interface Compare {
  key: string;
  value: string;
  /** None: all other values. */
  against?: string;
}

/** Splits samples by a value of a key: those that have it, and those of `against` (none: the rest). */
export function* split(
  dimensions: Dimensions,
  samples: Int32Array,
  { key, value, against }: Compare,
): Work<[Int32Array, Int32Array]> {
  const { of, values } = yield* dimensions.get(key);
  // No sample has -2.
  const idOf = (wanted: string) => (values.includes(wanted) ? values.indexOf(wanted) : -2);
  const a = idOf(value);
  const b = against === undefined ? undefined : idOf(against);
  return [
    yield* keep(samples, (i) => of[i] === a),
    yield* keep(samples, (i) => (b === undefined ? of[i] !== a : of[i] === b)),
  ];
}

export interface Total {
  /** Nanoseconds. */
  time: number;
  samples: number;
}

export function* sum(profile: Profile, rows: Int32Array): Work<Total> {
  const { value, taken } = profile.samples;
  let time = 0;
  let samples = 0;
  yield* each(rows.length, (i) => {
    time += value[rows[i]];
    samples += taken[rows[i]];
  });
  return { time, samples };
}
