// All stacks as a tree, seen from somewhere: from their roots, from their leaves, or from one function
// to its callers or to its callees.
import type { Profile } from './data';
import { each, type Work } from './slices';

/** Parents before children. */
export interface Stacks {
  frame: Int32Array;
  parent: Int32Array;
  /** For each node of the profile: where a stack that ends there ends here; -1: it is not in here. */
  of: Int32Array;
  /** How many callers there are from the innermost frame of a stack (`leaf`, a node of the profile) to its frame at
   * `depth` here, where it ends at depth `end`. Roots have depth 1. */
  up: (leaf: number, end: number, depth: number) => number;
}

/** Frames of a tree in the making; stacks that would need more end at the frame that they have reached. */
export const mostFrames = 1 << 21;

/** A tree in the making: each frame once below each parent. */
class Trie {
  readonly frame: number[] = [];
  readonly parent: number[] = [];
  private readonly known = new Map<number, number>();

  /** `parent` is -1 for a root. */
  child(parent: number, frame: number): number {
    const edge = (parent + 1) * 0x400_0000 + frame; // frames are fewer than 2^26
    let child = this.known.get(edge);
    if (child === undefined) {
      if (this.frame.length >= mostFrames) return parent;
      child = this.frame.push(frame) - 1;
      this.parent.push(parent);
      this.known.set(edge, child);
    }
    return child;
  }

  stacks(of: Int32Array, up: Stacks['up']): Stacks {
    return { frame: Int32Array.from(this.frame), parent: Int32Array.from(this.parent), of, up };
  }
}

const fromEnd: Stacks['up'] = (_, end, depth) => end - depth;

/** As they were called. */
export function* fromRoots(profile: Profile): Work<Stacks> {
  const { frame, parent, line } = profile.nodes;
  if (!line) return { frame, parent, of: Int32Array.from(frame, (_, node) => node), up: fromEnd };
  const of = new Int32Array(frame.length);
  const trie = new Trie();
  yield* each(frame.length, (node) => (of[node] = trie.child(parent[node] < 0 ? -1 : of[parent[node]], frame[node])));
  return trie.stacks(of, fromEnd);
}

/** From the functions in which time was spent to their callers. */
export function* fromLeaves(profile: Profile): Work<Stacks> {
  const { frame, parent } = profile.nodes;
  const leaves = profile.samples.node;
  const of = new Int32Array(frame.length).fill(-1);
  const trie = new Trie();
  yield* each(leaves.length, (i) => {
    const leaf = leaves[i];
    if (leaf < 0 || of[leaf] >= 0) return;
    let at = -1;
    for (let node = leaf; node >= 0; node = parent[node]) at = trie.child(at, frame[node]);
    of[leaf] = at;
  });
  return trie.stacks(of, (_leaf, _end, depth) => depth - 1);
}

/** Frames of the functions of this name, inlined or not. */
function framesOf(profile: Profile, name: string): Uint8Array {
  return Uint8Array.from(profile.frames, (frame) => (frame.name === name ? 1 : 0));
}

/** From a function to what it calls, where it is outermost: calls of itself are within. */
export function* callees(profile: Profile, name: string): Work<Stacks> {
  const { frame, parent } = profile.nodes;
  const is = framesOf(profile, name);
  const root = is.indexOf(1);
  const of = new Int32Array(frame.length).fill(-1);
  const trie = new Trie();
  yield* each(frame.length, (node) => {
    const above = parent[node] < 0 ? -1 : of[parent[node]];
    if (above >= 0) of[node] = trie.child(above, frame[node]);
    else if (is[frame[node]]) of[node] = trie.child(-1, root);
  });
  return trie.stacks(of, fromEnd);
}

/** From a function, where it is outermost, to its callers. */
export function* callers(profile: Profile, name: string): Work<Stacks> {
  const { frame, parent } = profile.nodes;
  const is = framesOf(profile, name);
  const root = is.indexOf(1);
  const of = new Int32Array(frame.length).fill(-1);
  const callersOf = new Int32Array(frame.length);
  const trie = new Trie();
  yield* each(frame.length, (node) => {
    const above = parent[node] < 0 ? -1 : of[parent[node]];
    callersOf[node] = parent[node] < 0 ? 0 : callersOf[parent[node]] + 1;
    if (above >= 0) {
      of[node] = above;
    } else if (is[frame[node]]) {
      let at = trie.child(-1, root);
      for (let up = parent[node]; up >= 0; up = parent[up]) at = trie.child(at, frame[up]);
      of[node] = at;
    }
  });
  return trie.stacks(of, (leaf, end, depth) => callersOf[leaf] - (end - depth));
}
