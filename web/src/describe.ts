// A frame in words, for the box beside the pointer and for screen readers.
import { Kind, type Frame, type WithFrames } from './data';
import { nameOf } from './draw';
import { duration, percent, plural, points, visible } from './format';
import { share, type Tree } from './tree';

export interface Description {
  name: string;
  /** What is special about it: “kernel”, “inlined”. */
  marks: string[];
  where: string[];
  /** One of numbers for each side. */
  sides: { samples: string; total: string; self: string; share: string; ofParent: string }[];
  difference?: string;
}

const kinds: Record<Kind, string> = {
  [Kind.native]: '',
  [Kind.kernel]: 'kernel',
  [Kind.jit]: 'JIT',
  [Kind.unknown]: 'no symbol',
  [Kind.notWhole]: 'callers are missing',
};

/** Where a function begins; empty: not known. */
export function sourceOf({ source, line }: Frame): string {
  return source && visible(source) + (line ? `:${line}` : '');
}

export function describe(profile: WithFrames, tree: Tree, i: number): Description {
  const frame = tree.what[i] >= 0 ? profile.frames[tree.what[i]] : undefined;
  const marks = frame ? [kinds[frame.kind], frame.inlined ? 'inlined' : ''].filter(Boolean) : [];
  const where: string[] = [];
  if (frame?.source) where.push(sourceOf(frame));
  if (frame?.module) where.push(visible(frame.module));
  if (frame?.problem) where.push(visible(frame.problem));
  const parent = tree.parent[i];
  const sides = tree.sides.map((side) => ({
    samples: plural(side.count[i], 'sample'),
    total: duration(side.total[i]),
    self: duration(side.self[i]),
    share: percent(share(side, i)),
    ofParent: parent >= 0 && side.total[parent] > 0 ? percent(side.total[i] / side.total[parent]) : '',
  }));
  const difference =
    tree.sides.length > 1 ? points(share(tree.sides[0], i) - share(tree.sides[1], i)) : undefined;
  return { name: nameOf(profile, tree, i, 600), marks, where, sides, difference };
}

/** One line, of one side. */
export function spoken(description: Description, side: number): string {
  const { name, marks, sides, difference } = description;
  const { total, share: part, ofParent, samples } = sides[side];
  return [
    name,
    ...marks,
    `${part} of all${ofParent && ofParent !== part ? `, ${ofParent} of its caller` : ''}`,
    `${total}, ${samples}`,
    ...(difference ? [`difference ${difference} points`] : []),
  ].join('; ');
}
