// Which samples are looked at: of a measure, in a range of time, where a filter holds.
import type { Profile } from './data';
import type { Dimensions } from './dimensions';
import { applyTo, type Term } from './filter';

export type Measure = 'cpu' | 'off';

/** Microseconds since the start; the end is not in it. */
export type Range = readonly [number, number];

export function select(
  profile: Profile,
  dimensions: Dimensions,
  measure: Measure,
  terms: readonly Term[],
  range: Range | undefined,
): Int32Array {
  const { count, offCpu, time } = profile.samples;
  const mask = new Uint8Array(count);
  const wanted = measure === 'off' ? 1 : 0;
  for (let i = 0; i < count; i++)
    mask[i] = offCpu[i] === wanted && (!range || (time[i] >= range[0] && time[i] < range[1])) ? 1 : 0;
  applyTo(mask, terms, dimensions);
  const chosen = new Int32Array(mask.reduce((sum, bit) => sum + bit, 0));
  for (let i = 0, to = 0; i < count; i++) if (mask[i]) chosen[to++] = i;
  return chosen;
}

/** Splits samples by a value of a key: those that have it, and those of `against` (none: the rest). */
export function split(
  dimensions: Dimensions,
  samples: Int32Array,
  key: string,
  value: string,
  against: string | undefined,
): [Int32Array, Int32Array] {
  const dimension = dimensions.get(key);
  const a = dimension.values.indexOf(value);
  const b = against === undefined ? undefined : dimension.values.indexOf(against);
  return [
    a < 0 ? new Int32Array(0) : samples.filter((i) => dimension.of[i] === a),
    b === undefined
      ? samples.filter((i) => dimension.of[i] !== a)
      : b < 0
        ? new Int32Array(0)
        : samples.filter((i) => dimension.of[i] === b),
  ];
}

export function sum(profile: Profile, samples: Int32Array): number {
  const { value } = profile.samples;
  let total = 0;
  for (const i of samples) total += value[i];
  return total;
}
