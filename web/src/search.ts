// Finding frames by a part of their name, or by a regular expression between slashes.
import type { WithFrames } from './data';
import { Pattern } from './regex';
import { each, type Work } from './slices';
import type { Tree } from './tree';

export type Matcher = (text: string) => boolean;

/** Nothing: no search. Text finds in any case; `/…/` is a regular expression. */
export function matcher(text: string): Matcher | undefined | { error: string } {
  if (text === '') return undefined;
  const pattern = /^\/(.+?)\/?$/s.exec(text)?.[1];
  if (pattern === undefined) {
    const wanted = text.toLowerCase();
    return (name) => name.toLowerCase().includes(wanted);
  }
  try {
    const regex = new Pattern(pattern, { ignoreCase: true });
    return (name) => regex.test(name);
  } catch (error) {
    return { error: `not a regular expression: ${(error as Error).message}` };
  }
}

export interface Found {
  /** Per frame of the tree. */
  matches: Uint8Array;
  frames: number;
  /** Time under matching frames, each nanosecond once, per side. */
  time: number[];
}

export function* search({ frames }: WithFrames, tree: Tree, matches: Matcher): Work<Found> {
  const frame = new Uint8Array(frames.length);
  yield* each(frames.length, (f) => (frame[f] = matches(frames[f].name) || (frames[f].module !== '' && matches(frames[f].module)) ? 1 : 0));
  const group = tree.groups.map((g) => matches(g.value));
  const found: Found = { matches: new Uint8Array(tree.size), frames: 0, time: tree.sides.map(() => 0) };
  let covered = 0;
  yield* each(tree.size, (i) => {
    const what = tree.what[i];
    if (what === -1 || !(what >= 0 ? frame[what] : group[-2 - what])) return;
    found.matches[i] = 1;
    found.frames++;
    if (i < covered) return;
    covered = tree.end[i];
    tree.sides.forEach((side, s) => (found.time[s] += side.total[i]));
  });
  return found;
}
