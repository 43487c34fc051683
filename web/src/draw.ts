// Painting a call tree on a canvas: only what is seen, whatever there is.
import type { Colours, Palette } from './colour';
import { Kind, type WithFrames } from './data';
import { shortName, visible } from './format';
import type { Found } from './search';
import { isRest, share, type Tree } from './tree';

export const rowHeight = 20;
/** Pixels below which a frame, and all it called, is left out. */
const narrowest = 0.5;
const narrowestText = 28;

/** A part of a tree on a surface of `width` by `height` pixels. */
export interface Scene {
  profile: WithFrames;
  tree: Tree;
  side: number;
  /** The frame that fills the width. */
  zoom: number;
  flame: boolean;
  /** Levels of the tree that are not shown: 1 leaves out the root, which stands for all. */
  hidden: number;
  width: number;
  height: number;
  /** Pixels of the drawing above the surface. */
  scroll: number;
  found?: Found;
}

export interface Box {
  x: number;
  y: number;
  width: number;
}

/** Height of the whole drawing, seen or not. */
export function heightOf(tree: Tree, hidden: number): number {
  return (tree.maxDepth + 1 - hidden) * rowHeight;
}

function top(scene: Scene, depth: number): number {
  const row = (depth - scene.hidden) * rowHeight;
  const whole = Math.max(heightOf(scene.tree, scene.hidden), scene.height);
  return (scene.flame ? whole - row - rowHeight : row) - scene.scroll;
}

function scaleOf({ tree, side, zoom, width }: Scene): { left: number; scale: number } {
  const { x, total } = tree.sides[side];
  return { left: x[zoom], scale: total[zoom] > 0 ? width / total[zoom] : 0 };
}

/** Where a frame is, the zoomed frame and what is above it being as wide as the surface. */
export function boxOf(scene: Scene, i: number): Box {
  const { tree, side, zoom } = scene;
  const y = top(scene, tree.depth[i]);
  if (i <= zoom && tree.end[i] > zoom) return { x: 0, y, width: scene.width };
  const { left, scale } = scaleOf(scene);
  return { x: (tree.sides[side].x[i] - left) * scale, y, width: tree.sides[side].total[i] * scale };
}

/** Every frame that is seen, in preorder; -1 stands for neighbours too narrow to be seen one by one. */
function* seen(scene: Scene): Generator<[number, Box]> {
  const { tree, side, zoom } = scene;
  if (tree.sides[side].total[zoom] <= 0) return;
  const above: number[] = [];
  for (let i = tree.parent[zoom]; i >= 0; i = tree.parent[i]) above.push(i);
  for (const i of above.reverse()) yield [i, boxOf(scene, i)];
  const { x, total } = tree.sides[side];
  const { left, scale } = scaleOf(scene);
  for (let i = zoom; i < tree.end[zoom]; ) {
    const width = total[i] * scale;
    if (width < narrowest) {
      const from = x[i];
      const y = top(scene, tree.depth[i]);
      const last = tree.end[tree.parent[i]];
      let sum = 0;
      // Siblings come by weight; those of two sides together need not be narrow here.
      for (; i < last && total[i] * scale < narrowest; i = tree.end[i]) sum += total[i];
      if (sum * scale >= narrowest) yield [-1, { x: (from - left) * scale, y, width: sum * scale }];
      continue;
    }
    yield [isRest(tree, i) ? -1 : i, { x: (x[i] - left) * scale, y: top(scene, tree.depth[i]), width }];
    i++;
  }
}

export function frameAt(scene: Scene, x: number, y: number): number | undefined {
  const depth = depthAt(scene, y);
  const { tree, side, zoom } = scene;
  if (tree.sides[side].total[zoom] <= 0) return undefined;
  for (let i = zoom; i >= 0; i = tree.parent[i]) if (tree.depth[i] === depth) return i;
  const { left, scale } = scaleOf(scene);
  const at = left + x / scale;
  const { x: from, total } = tree.sides[side];
  for (let i = zoom; i < tree.end[zoom]; ) {
    if (at < from[i] || at >= from[i] + total[i]) i = tree.end[i];
    else if (tree.depth[i] === depth) return total[i] * scale >= narrowest && !isRest(tree, i) ? i : undefined;
    else i++;
  }
  return undefined;
}

function depthAt(scene: Scene, y: number): number {
  const whole = Math.max(heightOf(scene.tree, scene.hidden), scene.height);
  const at = y + scene.scroll;
  return Math.floor((scene.flame ? whole - at : at) / rowHeight) + scene.hidden;
}

export function nameOf(profile: WithFrames, tree: Tree, i: number, most?: number): string {
  const what = tree.what[i];
  if (what === -1) return 'all';
  if (what >= 0) return visible(profile.frames[what].name, most);
  const group = tree.groups[-2 - what];
  return `${visible(group.key, most)} = ${group.missing ? group.value : visible(group.value, most)}`;
}

/** How much more of its side a frame has than of the other, as colours want it: relative to the larger,
 * so that small frames show, too. */
export function differenceOf(tree: Tree, side: number, i: number): number {
  const here = share(tree.sides[side], i);
  const there = share(tree.sides[1 - side], i);
  const most = Math.max(here, there);
  // Of frames that are nearly nothing on both sides, a difference says nothing.
  return most > 0 ? ((here - there) / most) * Math.min(1, most / 0.005) : 0;
}

export function draw(context: CanvasRenderingContext2D, scene: Scene, colours: Colours, palette: Palette): void {
  const { profile, tree, width, height, found } = scene;
  context.fillStyle = palette.background;
  context.fillRect(0, 0, width, height);
  context.textBaseline = 'middle';
  const font = getComputedStyle(context.canvas).fontFamily;
  const plain = `12px ${font}`;
  const italic = `italic 12px ${font}`;
  const bold = `600 12px ${font}`;
  context.font = plain;
  const letter = context.measureText('n').width;
  for (const [i, box] of seen(scene)) {
    if (box.y + rowHeight < 0 || box.y > height) continue;
    if (i < 0) {
      context.globalAlpha = 1;
      context.fillStyle = colours.root(palette);
      context.fillRect(box.x, box.y, box.width, rowHeight - 1);
      continue;
    }
    const what = tree.what[i];
    const frame = what >= 0 ? profile.frames[what] : undefined;
    const group = what < -1 ? tree.groups[-2 - what] : undefined;
    const matched = found?.matches[i] === 1;
    context.globalAlpha = (found && !matched) || (i < scene.zoom && tree.end[i] > scene.zoom) ? 0.5 : 1;
    context.fillStyle = matched
      ? palette.match
      : tree.sides.length > 1 && what !== -1
        ? colours.difference(differenceOf(tree, scene.side, i), palette)
        : frame
          ? colours.frame(frame, palette)
          : group
            ? colours.group(group.value, group.missing, palette)
            : colours.root(palette);
    const gap = box.width > 3 ? 1 : 0;
    context.fillRect(box.x, box.y, box.width - gap, rowHeight - 1);
    if (frame?.kind === Kind.notWhole) hatch(context, box, palette);
    if (frame?.inlined && box.width > 6) {
      context.fillStyle = palette.hatch;
      for (let x = box.x + 1; x < box.x + box.width - 3 && x < width; x += 5) context.fillRect(x, box.y + rowHeight - 3, 3, 1);
    }
    const from = Math.max(0, box.x);
    const room = Math.min(width, box.x + box.width) - from - 8;
    if (room < narrowestText) continue;
    context.globalAlpha = found && !matched ? 0.75 : 1;
    context.fillStyle = matched ? palette.matchText : palette.textOn;
    context.font = group ? bold : frame?.inlined ? italic : plain;
    const name = nameOf(profile, tree, i, 300);
    const whole = fit(context, name, room, letter);
    const text = frame && whole !== name ? fit(context, shortName(name), room, letter) : whole;
    context.fillText(text, from + 5, box.y + rowHeight / 2);
  }
  context.globalAlpha = 1;
}

function hatch(context: CanvasRenderingContext2D, box: Box, palette: Palette): void {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.width - 1, rowHeight - 1);
  context.clip();
  context.strokeStyle = palette.hatch;
  context.beginPath();
  const right = Math.min(box.x + box.width, context.canvas.width);
  for (let x = Math.max(box.x, 0) - rowHeight; x < right; x += 6) {
    context.moveTo(x, box.y + rowHeight);
    context.lineTo(x + rowHeight, box.y);
  }
  context.stroke();
  context.restore();
}

/** As much of a name as there is room for, its end left out. */
function fit(context: CanvasRenderingContext2D, name: string, room: number, letter: number): string {
  if (name.length * letter * 0.5 <= room && context.measureText(name).width <= room) return name;
  let low = 0;
  let high = Math.min(name.length, Math.ceil(room / (letter * 0.35)));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${name.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${name.slice(0, low)}…` : '';
}
