// The call tree of some samples, under root frames of label values; laid out, as columns.
//
// Frames come in preorder, the heaviest child first: `end` of a frame is where its subtree ends, so
// that whatever is too narrow to be seen is skipped in one step. One side, or two to compare.
import type { Profile } from './data';
import { valueName, type Dimension } from './dimensions';
import { fromRoots, type Stacks } from './perspective';

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
  /** A frame of the profile; of groups, -2 - index; -1 is frame 0, the whole. */
  what: Int32Array;
  groups: Group[];
  parent: Int32Array;
  end: Int32Array;
  depth: Int32Array;
  maxDepth: number;
  sides: Side[];
}

interface Raw {
  what: number[];
  parent: number[];
}

/** Samples whose stacks are not in `stacks` are left out. */
export function build(
  profile: Profile,
  dimensions: readonly Dimension[],
  allSides: readonly Int32Array[],
  stacks: Stacks = fromRoots(profile),
  partial = stacks.of.includes(-1),
): Tree {
  const { node: nodeOf, value: valueOf, taken: takenOf } = profile.samples;
  const has = (sample: number) => nodeOf[sample] >= 0 && stacks.of[nodeOf[sample]] >= 0;
  const sides = partial ? allSides.map((samples) => samples.filter(has)) : allSides;
  const grouped = groupSamples(dimensions, sides);
  const raw: Raw = { what: [-1], parent: [-1] };
  const groupNode = grouped.nodes.map((g) => {
    raw.what.push(-2 - g.index);
    raw.parent.push(g.parent < 0 ? 0 : g.parent + 1);
    return raw.what.length - 1;
  });

  // Where the samples of each side end: their node in raw.
  const { frame, parent } = stacks;
  const at = sides.map((samples) => new Int32Array(samples.length));
  const stamp = new Int32Array(frame.length).fill(-1);
  const made = new Int32Array(frame.length);
  const path: number[] = [];
  for (let g = 0; g < grouped.leaves.length; g++) {
    const root = grouped.leaves[g] < 0 ? 0 : groupNode[grouped.leaves[g]];
    for (const [side, position] of grouped.members[g]) {
      const leaf = nodeOf[sides[side][position]];
      let node = leaf < 0 ? -1 : stacks.of[leaf];
      path.length = 0;
      for (; node >= 0 && stamp[node] !== g; node = parent[node]) path.push(node);
      let above = node < 0 ? root : made[node];
      while (path.length > 0) {
        const below = path.pop()!;
        raw.what.push(frame[below]);
        raw.parent.push(above);
        above = made[below] = raw.what.length - 1;
        stamp[below] = g;
      }
      at[side][position] = above;
    }
  }

  const size = raw.what.length;
  const weighed = sides.map((samples, s) => {
    const total = new Float64Array(size);
    const self = new Float64Array(size);
    const count = new Float64Array(size);
    samples.forEach((sample, position) => {
      self[at[s][position]] += valueOf[sample];
      count[at[s][position]] += takenOf[sample];
    });
    total.set(self);
    for (let i = size - 1; i > 0; i--) {
      total[raw.parent[i]] += total[i];
      count[raw.parent[i]] += count[i];
    }
    return { total, self, count };
  });
  return layOut(raw, grouped.groups, weighed);
}

type Member = [side: number, position: number];

/** Root frames as a tree of their own, and the samples under each of its leaves. */
function groupSamples(dimensions: readonly Dimension[], sides: readonly Int32Array[]) {
  const groups: Group[] = [];
  const nodes: { parent: number; index: number }[] = [];
  // Per dimension: children of a node by value, and groups by value.
  const children = dimensions.map(() => new Map<number, number>());
  const groupIndex = dimensions.map(() => new Map<number, number>());
  const leafIndex = new Map<number, number>();
  const leaves: number[] = [];
  const members: Member[][] = [];
  sides.forEach((samples, side) =>
    samples.forEach((sample, position) => {
      let node = -1;
      dimensions.forEach((dimension, d) => {
        const id = dimension.of[sample];
        const edge = (node + 1) * (dimension.values.length + 1) + id + 1;
        let child = children[d].get(edge);
        if (child === undefined) {
          let index = groupIndex[d].get(id);
          if (index === undefined) {
            index = groups.push({ key: dimension.key, value: valueName(dimension, id), missing: id < 0 }) - 1;
            groupIndex[d].set(id, index);
          }
          child = nodes.push({ parent: node, index }) - 1;
          children[d].set(edge, child);
        }
        node = child;
      });
      let leaf = leafIndex.get(node);
      if (leaf === undefined) {
        leaf = leaves.push(node) - 1;
        leafIndex.set(node, leaf);
        members.push([]);
      }
      members[leaf].push([side, position]);
    }),
  );
  return { groups, nodes, leaves, members };
}

function layOut(raw: Raw, groups: Group[], weighed: Omit<Side, 'x'>[]): Tree {
  const size = raw.what.length;
  // Children of each, together: `first[i]` to `first[i + 1]` in `children`.
  const first = new Int32Array(size + 1);
  for (let i = 1; i < size; i++) first[raw.parent[i] + 1]++;
  for (let i = 0; i < size; i++) first[i + 1] += first[i];
  const fill = first.slice();
  const children = new Int32Array(Math.max(0, size - 1));
  for (let i = 1; i < size; i++) children[fill[raw.parent[i]]++] = i;
  const share = new Float64Array(size);
  for (const { total } of weighed)
    if (total[0] > 0) for (let i = 0; i < size; i++) share[i] += total[i] / total[0];
  const before = (a: number, b: number) => share[b] - share[a] || raw.what[a] - raw.what[b];
  for (let i = 0; i < size; i++) sortPart(children, first[i], first[i + 1], before);

  const order = new Int32Array(size);  // preorder -> raw
  const parent = new Int32Array(size).fill(-1);
  const end = new Int32Array(size);
  const depth = new Int32Array(size);
  const stack = new Int32Array(size);  // of raw, and whose child each is
  const above = new Int32Array(size);
  above[0] = -1;
  let waiting = 1;
  let placed = 0;
  let maxDepth = 0;
  while (waiting > 0) {
    const i = stack[--waiting];
    const to = placed++;
    order[to] = i;
    parent[to] = above[waiting];
    depth[to] = to === 0 ? 0 : depth[parent[to]] + 1;
    maxDepth = Math.max(maxDepth, depth[to]);
    for (let c = first[i + 1] - 1; c >= first[i]; c--) {
      stack[waiting] = children[c];
      above[waiting++] = to;
    }
  }
  for (let i = size - 1; i >= 0; i--) {
    end[i] = Math.max(end[i], i + 1);
    if (i > 0) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  }
  const sides = weighed.map(({ total, self, count }) => {
    const side: Side = {
      total: new Float64Array(size),
      self: new Float64Array(size),
      count: new Float64Array(size),
      x: new Float64Array(size),
    };
    const next = new Float64Array(size);
    for (let i = 0; i < size; i++) {
      side.total[i] = total[order[i]];
      side.self[i] = self[order[i]];
      side.count[i] = count[order[i]];
      if (i > 0) {
        side.x[i] = next[parent[i]];
        next[parent[i]] += side.total[i];
      }
      next[i] = side.x[i];
    }
    return side;
  });
  const what = Int32Array.from(order, (i) => raw.what[i]);
  return { size, what, groups, parent, end, depth, maxDepth, sides };
}

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
