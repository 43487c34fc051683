// Moving among frames with the keyboard.
import { isRest, type Tree } from './tree';

export type Move = 'parent' | 'child' | 'next' | 'previous';

function siblings(tree: Tree, i: number): number[] {
  const parent = tree.parent[i];
  if (parent < 0) return [i];
  const all: number[] = [];
  for (let c = parent + 1; c < tree.end[parent]; c = tree.end[c]) if (!isRest(tree, c)) all.push(c);
  return all;
}

/** Where a move leads; the frame itself where it leads nowhere. Frames that take no time on a side
 * (`seen` says so) are stepped over. */
export function move(tree: Tree, i: number, to: Move, seen: (i: number) => boolean): number {
  if (to === 'parent') return Math.max(0, tree.parent[i]);
  if (to === 'child') {
    for (let c = i + 1; c < tree.end[i]; c = tree.end[c]) if (seen(c)) return c;
    return i;
  }
  const among = siblings(tree, i).filter((s) => s === i || seen(s));
  return among[among.indexOf(i) + (to === 'next' ? 1 : -1)] ?? i;
}

/** Position among the frames beside it, from 1, and how many those are. */
export function place(tree: Tree, i: number): { position: number; of: number } {
  const all = siblings(tree, i);
  return { position: all.indexOf(i) + 1, of: all.length };
}
