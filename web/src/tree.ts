// The call tree of some samples, under root frames of label values; laid out, as columns.
//
// Frames come in preorder, the heaviest child first: `end` of a frame is where its subtree ends, so
// that whatever is too narrow to be seen is skipped in one step. One side, or two to compare.
import type { Profile } from './data';
import { valueName, type Dimension } from './dimensions';
import { plural } from './format';
import { mostFrames, type Stacks } from './perspective';
import { keep } from './select';
import { each, type Work } from './slices';

export interface Side {
  /** Nanoseconds, of the frame and what it called; and of the frame alone. */
  total: Float64Array;
  self: Float64Array;
  /** Samples. */
  count: Float64Array;
  /** Where the frame begins, in nanoseconds from the left. */
  x: Float64Array;
}

/** A root frame that stands for a label's value. */
export interface Group {
  key: string;
  value: string;
  /** The sample has no such key. */
  missing: boolean;
}

export interface Tree {
  size: number;
  /** A frame of the profile; of groups, -2 - index; -1 is frame 0, the whole, and else see isRest. */
  what: Int32Array;
  groups: Group[];
  parent: Int32Array;
  end: Int32Array;
  depth: Int32Array;
  maxDepth: number;
  sides: Side[];
}

/** A tree, and where in it its samples end. */
export interface Built {
  tree: Tree;
  stacks: Stacks;
  /** How many levels of groups are between the whole and the first frames of stacks. */
  levels: number;
  /** Of all sides, one after the other; side s ends before `until[s]`. */
  samples: Int32Array;
  until: number[];
  /** A frame for each. */
  ends: Int32Array;
}

interface Raw {
  what: number[];
  parent: number[];
}

/** Values of a key that get a group each, those with the most time; the rest share one. */
const mostValues = 1000;

/** Samples whose stacks are not in `stacks` are left out where `partial`. */
export function* build(
  profile: Profile,
  dimensions: readonly Dimension[],
  allSides: readonly Int32Array[],
  stacks: Stacks,
  partial = stacks.of.includes(-1),
): Work<Built> {
  const { node: nodeOf, value: valueOf, taken: takenOf } = profile.samples;
  const sides: Int32Array[] = [];
  for (const samples of allSides)
    sides.push(partial ? yield* keep(samples, (i) => nodeOf[i] >= 0 && stacks.of[nodeOf[i]] >= 0) : samples);
  // All samples as one column, the sides one after the other.
  const samples = new Int32Array(sides.reduce((sum, side) => sum + side.length, 0));
  const begins = sides.map((_, s) => sides.slice(0, s).reduce((sum, side) => sum + side.length, 0));
  sides.forEach((side, s) => samples.set(side, begins[s]));

  const { groups, nodes, leafOf, leaves } = yield* groupSamples(profile, dimensions, samples);
  const raw: Raw = { what: [-1], parent: [-1] };
  nodes.forEach(({ index, parent }) => {
    raw.what.push(-2 - index);
    raw.parent.push(parent + 1);
  });

  // Where the samples end: their node in raw. Group by group: within one, a frame is made once.
  const { frame, parent } = stacks;
  const at = new Int32Array(samples.length);
  const stamp = new Int32Array(frame.length).fill(-1);
  const made = new Int32Array(frame.length);
  const path: number[] = [];
  const { order } = yield* sortByKey(leafOf, leaves.length);
  yield* each(samples.length, (i) => {
    const position = order[i];
    const g = leafOf[position];
    const leaf = nodeOf[samples[position]];
    let node = leaf < 0 ? -1 : stacks.of[leaf];
    path.length = 0;
    for (; node >= 0 && stamp[node] !== g; node = parent[node]) path.push(node);
    let above = node < 0 ? leaves[g] + 1 : made[node];
    while (path.length > 0 && raw.what.length < mostFrames) {
      const below = path.pop()!;
      raw.what.push(frame[below]);
      raw.parent.push(above);
      above = made[below] = raw.what.length - 1;
      stamp[below] = g;
    }
    at[position] = above;
  });

  const size = raw.what.length;
  const weighed: Omit<Side, 'x'>[] = [];
  for (const [s, side] of sides.entries()) {
    const self = new Float64Array(size);
    const count = new Float64Array(size);
    yield* each(side.length, (position) => {
      const end = at[begins[s] + position];
      self[end] += valueOf[side[position]];
      count[end] += takenOf[side[position]];
    });
    const total = self.slice();
    yield* each(size - 1, (back) => {
      const i = size - 1 - back;
      total[raw.parent[i]] += total[i];
      count[raw.parent[i]] += count[i];
    });
    weighed.push({ total, self, count });
  }
  const { tree, to } = yield* layOut(raw, groups, weighed);
  yield* each(at.length, (position) => (at[position] = to[at[position]]));
  const until = sides.map((side, s) => begins[s] + side.length);
  return { tree, stacks, levels: dimensions.length, samples, until, ends: at };
}

/** Which rows have which key, the rows of key 0 first; `first` says where each key's begin. */
function* sortByKey(keys: Int32Array, size: number): Work<{ order: Int32Array; first: Int32Array }> {
  const first = new Int32Array(size + 1);
  yield* each(keys.length, (i) => first[keys[i] + 1]++);
  for (let key = 0; key < size; key++) first[key + 1] += first[key];
  const next = first.slice();
  const order = new Int32Array(keys.length);
  yield* each(keys.length, (i) => (order[next[keys[i]]++] = i));
  return { order, first };
}

/** Root frames as a tree of their own, and for each sample its leaf (-1 of `leaves`: the whole). */
function* groupSamples(profile: Profile, dimensions: readonly Dimension[], samples: Int32Array) {
  const groups: Group[] = [];
  const nodes: { parent: number; index: number }[] = [];
  let at = new Int32Array(samples.length).fill(-1);
  for (const dimension of dimensions) {
    const { few, more } = yield* fewValues(profile, dimension, samples);
    const children = new Map<number, number>();
    const groupOf = new Map<number, number>();
    yield* each(samples.length, (position) => {
      const id = few(dimension.of[samples[position]]);
      const edge = (at[position] + 1) * (dimension.values.length + 2) + id + 1;
      let child = children.get(edge);
      if (child === undefined) {
        let index = groupOf.get(id);
        if (index === undefined) {
          const value = id === dimension.values.length ? `(${plural(more, 'more value')})` : valueName(dimension, id);
          index = groups.push({ key: dimension.key, value, missing: id < 0 || id === dimension.values.length }) - 1;
          groupOf.set(id, index);
        }
        child = nodes.push({ parent: at[position], index }) - 1;
        children.set(edge, child);
      }
      at[position] = child;
    });
  }
  const leafIndex = new Map<number, number>();
  const leaves: number[] = [];
  const leafOf = at;
  yield* each(samples.length, (position) => {
    let leaf = leafIndex.get(at[position]);
    if (leaf === undefined) leafIndex.set(at[position], (leaf = leaves.push(at[position]) - 1));
    leafOf[position] = leaf;
  });
  return { groups, nodes, leaves, leafOf };
}

/** Maps all values but those with the most time to one more. */
function* fewValues(profile: Profile, dimension: Dimension, samples: Int32Array) {
  const all = dimension.values.length;
  const same = { few: (id: number) => id, more: 0 };
  if (all <= mostValues) return same;
  const time = new Float64Array(all);
  yield* each(samples.length, (position) => {
    const id = dimension.of[samples[position]];
    if (id >= 0) time[id] += profile.samples.value[samples[position]] + 1e-3;
  });
  const least = time.slice().sort()[all - mostValues];
  const more = time.reduce((sum, of) => sum + (of > 0 && of < least ? 1 : 0), 0);
  if (more === 0) return same;
  return { few: (id: number) => (id >= 0 && time[id] < least ? all : id), more };
}

/** `to` says where each frame of `raw` is in the tree. */
function* layOut(raw: Raw, groups: Group[], weighed: Omit<Side, 'x'>[]): Work<{ tree: Tree; to: Int32Array }> {
  const size = raw.what.length;
  // Children of each, together: from `first[i + 1]` to `first[i + 2]` in `children`; the whole is nobody's.
  const { order: children, first } = yield* sortByKey(Int32Array.from(raw.parent, (parent) => parent + 1), size + 1);
  const share = new Float64Array(size);
  for (const { total } of weighed)
    if (total[0] > 0) yield* each(size, (i) => (share[i] += total[i] / total[0]));
  const before = (a: number, b: number) => share[b] - share[a] || raw.what[a] - raw.what[b];
  yield* each(size, (i) => sortPart(children, first[i + 1], first[i + 2], before));

  const order = new Int32Array(size);  // preorder -> raw
  const placeOf = new Int32Array(size);  // and back
  const parent = new Int32Array(size).fill(-1);
  const end = new Int32Array(size);
  const depth = new Int32Array(size);
  const stack = new Int32Array(size);  // of raw, and whose child each is
  const above = new Int32Array(size);
  above[0] = -1;
  let waiting = 1;
  let maxDepth = 0;
  yield* each(size, (to) => {
    const i = stack[--waiting];
    order[to] = i;
    placeOf[i] = to;
    parent[to] = above[waiting];
    depth[to] = to === 0 ? 0 : depth[parent[to]] + 1;
    maxDepth = Math.max(maxDepth, depth[to]);
    for (let c = first[i + 2] - 1; c >= first[i + 1]; c--) {
      stack[waiting] = children[c];
      above[waiting++] = to;
    }
  });
  yield* each(size, (back) => {
    const i = size - 1 - back;
    end[i] = Math.max(end[i], i + 1);
    if (i > 0) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  });
  const sides: Side[] = [];
  for (const { total, self, count } of weighed) {
    const side = newSide(size);
    const next = new Float64Array(size);
    yield* each(size, (i) => {
      side.total[i] = total[order[i]];
      side.self[i] = self[order[i]];
      side.count[i] = count[order[i]];
      if (i > 0) {
        side.x[i] = next[parent[i]];
        next[parent[i]] += side.total[i];
      }
      next[i] = side.x[i];
    });
    sides.push(side);
  }
  const what = Int32Array.from(order, (i) => raw.what[i]);
  return { tree: { size, what, groups, parent, end, depth, maxDepth, sides }, to: placeOf };
}

const newSide = (size: number): Side => ({
  total: new Float64Array(size),
  self: new Float64Array(size),
  count: new Float64Array(size),
  x: new Float64Array(size),
});

/** Nearly all parts are short, and there are as many as frames: too many for a sort of the library's each. */
function sortPart(all: Int32Array, from: number, to: number, before: (a: number, b: number) => number): void {
  if (to - from > 24) {
    all.subarray(from, to).sort(before);
    return;
  }
  for (let i = from + 1; i < to; i++) {
    const value = all[i];
    let at = i;
    for (; at > from && before(all[at - 1], value) > 0; at--) all[at] = all[at - 1];
    all[at] = value;
  }
}

/** Frames of a tree that is to be drawn. */
export const mostDrawn = 100_000;
/** As parts of what fills the width: half a pixel of a screen of 8,192. */
const narrowest = 2 ** -14;

export interface Drawn {
  tree: Tree;
  /** The frame of the whole tree that each is; -1 for the rest of a frame's children. */
  from: Int32Array;
}

/** A tree of many frames without those that are too narrow to be seen when `zoom` fills the width; of each parent, these
 * are one frame that stands for the rest. Frames beside `zoom` stay as far as they are seen without it. */
export function* forDrawing(tree: Tree, zoom: number, most = mostDrawn): Work<Drawn> {
  if (tree.size <= most) return { tree, from: Int32Array.from(tree.what.keys()) };
  const all = new Float64Array(tree.size);
  for (const side of tree.sides) yield* each(tree.size, (i) => (all[i] += share(side, i)));
  const inside = (i: number) => i >= zoom && i < tree.end[zoom];
  const above = (i: number) => i < zoom && tree.end[i] > zoom;
  const relative = (i: number) => (above(i) ? 1 : inside(i) && all[zoom] > 0 ? all[i] / all[zoom] : all[i]);
  // How many frames are between one power of two and the next: the smallest that leaves few enough is where to cut.
  const between = new Int32Array(16);
  yield* each(tree.size, (i) => between[Math.max(0, Math.min(15, Math.floor(-Math.log2(relative(i)))))]++);
  let least = 1;
  for (let power = 0, sum = 0; least > narrowest && (sum += between[power]) <= most; power++) least /= 2;

  const from: number[] = [];
  const rests: number[] = []; // the first frame that each stands for, or -1
  const parent: number[] = [];
  const to = new Int32Array(tree.size);
  for (let i = 0; i < tree.size; ) {
    const up = tree.parent[i];
    if (i === 0 || i === zoom || relative(i) > least) {
      to[i] = from.push(i) - 1;
      rests.push(-1);
      parent.push(i === 0 ? -1 : to[up]);
      i++;
    } else if (zoom > i && zoom < tree.end[up]) {
      i = tree.end[i]; // on the way to `zoom`, which hides what is beside it
    } else {
      // Siblings come by weight: those that follow are narrower still.
      from.push(-1);
      rests.push(i);
      parent.push(to[up]);
      i = tree.end[up];
    }
  }

  const size = from.length;
  const depth = new Int32Array(size);
  const end = new Int32Array(size);
  for (let i = 1; i < size; i++) depth[i] = depth[parent[i]] + 1;
  for (let i = size - 1; i >= 0; i--) {
    end[i] = Math.max(end[i], i + 1);
    if (i > 0) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  }
  const sides = tree.sides.map((whole) => {
    const side = newSide(size);
    for (let i = 0; i < size; i++) {
      const first = from[i] < 0 ? rests[i] : from[i];
      side.x[i] = whole.x[first];
      side.self[i] = from[i] < 0 ? 0 : whole.self[first];
      const last = from[i] < 0 ? tree.end[tree.parent[first]] : first + 1;
      for (let f = first; f < last; f = from[i] < 0 ? tree.end[f] : f + 1) {
        side.total[i] += whole.total[f];
        side.count[i] += whole.count[f];
      }
    }
    return side;
  });
  const drawn: Tree = {
    size, groups: tree.groups, depth, end, sides,
    what: Int32Array.from(from, (i) => (i < 0 ? -1 : tree.what[i])),
    parent: Int32Array.from(parent),
    maxDepth: depth.reduce((a, b) => Math.max(a, b), 0),
  };
  return { tree: drawn, from: Int32Array.from(from) };
}

/** Whether a frame stands for those of its parent's children that are too narrow to be seen. */
export function isRest(tree: Tree, i: number): boolean {
  return i > 0 && tree.what[i] === -1;
}

/** Share of the side that a frame has; 0 where the side has nothing. */
export function share(side: Side, i: number): number {
  return side.total[0] > 0 ? side.total[i] / side.total[0] : 0;
}

/** From the whole down to the frame. */
export function pathOf(tree: Tree, i: number): number[] {
  const path: number[] = [];
  for (let at = i; at >= 0; at = tree.parent[at]) path.push(at);
  return path.reverse();
}

/** The frame that a path of `what` leads to, as far as it goes. */
export function follow(tree: Tree, path: readonly number[]): number {
  let at = 0;
  for (const what of path) {
    let child = at + 1;
    while (child < tree.end[at] && tree.what[child] !== what) child = tree.end[child];
    if (child >= tree.end[at]) break;
    at = child;
  }
  return at;
}
