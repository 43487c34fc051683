// Time spent over the time of the profile.
import type { Profile } from './data';
import { each, type Work } from './slices';

/** Nanoseconds in each of `bins` equal parts of the profile. Time off the CPU lasts, and is spread over
 * the parts that it lasts through; a tick of the CPU's clock is where it is. */
export function* overTime(profile: Profile, chosen: Int32Array, bins: number): Work<Float64Array> {
  const { time, value, offCpu } = profile.samples;
  const width = lengthOf(profile) / bins;
  const sums = new Float64Array(bins);
  // Whole bins inside an interval: added where it begins, taken off where it ends.
  const change = new Float64Array(bins + 1);
  const bin = (at: number) => Math.min(bins - 1, Math.max(0, Math.floor(at / width)));
  yield* each(chosen.length, (at) => {
    const i = chosen[at];
    const first = bin(time[i]);
    if (!offCpu[i]) {
      sums[first] += value[i];
      return;
    }
    const until = Math.min(time[i] + value[i] / 1000, bins * width);
    const last = bin(until);
    if (first === last) {
      sums[first] += (until - time[i]) * 1000;
      return;
    }
    sums[first] += ((first + 1) * width - time[i]) * 1000;
    sums[last] += (until - last * width) * 1000;
    change[first + 1] += width * 1000;
    change[last] -= width * 1000;
  });
  let whole = 0;
  for (let b = 0; b < bins; b++) sums[b] += whole += change[b];
  return sums;
}

/** Files of sums do not say when their samples were taken: all of one are at its start, and a comparison has two. */
export function hasTimes(profile: Profile): boolean {
  const { time, count } = profile.samples;
  if (count === 0 || time[count - 1] === 0) return false;
  let moments = 1;
  for (let i = 1; i < count && moments < 3; i++) if (time[i] !== time[i - 1]) moments++;
  return moments > 2 || moments === count;
}

/** Microseconds from the start to the last of what there is. */
export function lengthOf(profile: Profile): number {
  const { time, count } = profile.samples;
  return Math.max(profile.durationNs / 1000, count > 0 ? time[count - 1] + 1 : 0, 1);
}
