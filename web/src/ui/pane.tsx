import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Colours, Palette } from '../colour';
import { describe, spoken } from '../describe';
import { boxOf, draw, frameAt, heightOf, rowHeight, type Scene } from '../draw';
import type { Client } from '../client';
import type { Half, Overview, Rooted } from '../engine';
import type { Found } from '../search';
import { isRest, type Tree } from '../tree';
import { move, place, type Move } from '../navigate';
import { useLines } from './lines';
import { Tooltip, type Anchor } from './tooltip';
import { useSize } from './width';

/** A tree, and how it is seen. */
export interface View {
  profile: Overview;
  colours: Colours;
  tree: Tree;
  zoom: number;
  found?: Found;
}

interface Props {
  client: Client;
  view: View;
  /** What the tree is of. */
  of: Rooted | Half;
  side: number;
  /** Of the element; each pane of a view has its own (the side). */
  id?: number;
  /** Of the side, where there are two. */
  name: string;
  flame: boolean;
  /** See Scene. */
  hidden?: number;
  palette: Palette;
  focused: number;
  setFocused: (frame: number) => void;
  hovered: number | undefined;
  setHovered: (frame: number | undefined) => void;
  zoomTo: (frame: number) => void;
}

/** One flame graph. The canvas is as large as what is seen of it; screen readers get the focused frame as
 * the one item of a tree. */
export function Pane(props: Props) {
  const { view, side, name, flame, hidden = 0, palette, focused, setFocused, hovered, setHovered, zoomTo } = props;
  const { profile, tree, colours, zoom, found } = view;
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(scroller);
  const [scroll, setScroll] = useState(0);
  const [hasFocus, setHasFocus] = useState(false);
  const [anchor, setAnchor] = useState<Anchor>();
  const scene: Scene = { profile, tree, side, zoom, flame, hidden, found, scroll, ...size };
  const whole = Math.max(heightOf(tree, hidden), size.height);

  useLayoutEffect(() => {
    const element = canvas.current!;
    const ratio = devicePixelRatio || 1;
    element.width = Math.max(1, Math.round(size.width * ratio));
    element.height = Math.max(1, Math.round(size.height * ratio));
    const context = element.getContext('2d', { alpha: false });
    if (!context || size.width === 0) return;
    context.scale(ratio, ratio);
    draw(context, scene, colours, palette);
  }, [profile, tree, side, zoom, flame, found, scroll, size, palette]);

  const reveal = (frame: number) => {
    const element = scroller.current!;
    const y = boxOf({ ...scene, scroll: 0 }, frame).y;
    const margin = 2 * rowHeight;
    if (y - margin < element.scrollTop) element.scrollTop = y - margin;
    else if (y + rowHeight + margin > element.scrollTop + size.height)
      element.scrollTop = y + rowHeight + margin - size.height;
  };
  // The roots are where one looks first.
  useLayoutEffect(() => {
    scroller.current!.scrollTop = flame ? whole : 0;
  }, [flame, tree, size.height > 0]);
  useLayoutEffect(() => {
    if (size.height > 0) reveal(zoom);
  }, [zoom, size.height > 0]);

  const at = (event: { clientX: number; clientY: number }) => {
    const box = canvas.current!.getBoundingClientRect();
    return frameAt(scene, event.clientX - box.left, event.clientY - box.top);
  };
  const go = (to: Move) => {
    const next = move(tree, focused, to, (i) => tree.sides[side].total[i] > 0 && !isRest(tree, i));
    if (next < zoom || next >= tree.end[zoom]) {
      // Above what is zoomed into are only its callers.
      if (to !== 'parent') return;
    }
    if (tree.depth[next] < hidden) return;
    setHovered(undefined);
    setFocused(next);
    reveal(next);
  };
  const first = Math.min(hidden, tree.size - 1);
  const keys: Record<string, () => void> = {
    ArrowUp: () => go(flame ? 'child' : 'parent'),
    ArrowDown: () => go(flame ? 'parent' : 'child'),
    ArrowLeft: () => go('previous'),
    ArrowRight: () => go('next'),
    Enter: () => zoomTo(focused),
    ' ': () => zoomTo(focused),
    Backspace: () => zoomTo(Math.max(0, tree.parent[zoom])),
    Escape: () => zoomTo(0),
    Home: () => (setFocused(first), reveal(first)),
  };
  useEffect(() => {
    if (hovered === undefined) setAnchor(undefined);
  }, [hovered]);

  const shown = hovered ?? (hasFocus ? focused : undefined);
  const lines = useLines(props.client, props.of, tree, shown);
  const inContent = (frame: number) => {
    const box = boxOf(scene, frame);
    const from = Math.max(0, box.x);
    const to = Math.min(size.width, box.x + box.width);
    const px = (n: number) => `${n}px`;
    return { left: px(from), top: px(box.y + scroll), width: px(Math.max(2, to - from)), height: px(rowHeight - 1) };
  };
  const where = place(tree, focused);
  const item = `frame-${props.id ?? side}`;
  const keyboardAnchor = (): Anchor => {
    const box = canvas.current!.getBoundingClientRect();
    const frame = boxOf(scene, focused);
    return { x: box.left + Math.max(0, frame.x) + 8, y: box.top + frame.y + rowHeight };
  };
  return (
    <div class="pane" style={{ '--tall': `${heightOf(tree, hidden)}px` }}>
      {name && <h2><bdi>{name}</bdi></h2>}
      <div class="scroller" ref={scroller} tabIndex={0} role="tree" aria-label={name ? `Call tree of ${name}` : 'Call tree'}
        aria-activedescendant={item} onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
        onFocus={() => setHasFocus(true)} onBlur={() => setHasFocus(false)}
        onKeyDown={(event) => {
          if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
          keys[event.key]();
          event.preventDefault();
        }}>
        <div class="whole" style={{ height: `${whole}px` }}>
          <canvas ref={canvas} style={{ width: `${size.width}px`, height: `${size.height}px` }}
            onPointerMove={(event) => {
              if (event.pointerType === 'touch') return;
              setHovered(at(event));
              setAnchor({ x: event.clientX, y: event.clientY });
            }}
            onPointerLeave={() => setHovered(undefined)}
            onClick={(event) => {
              const frame = at(event);
              if (frame === undefined) return;
              // A finger cannot hover: its first touch shows the frame, its second zooms.
              const touch = (event as unknown as PointerEvent).pointerType === 'touch';
              if (touch && frame !== focused) setFocused(frame);
              else zoomTo(frame);
            }} />
          {hovered !== undefined && <div class="hovered" style={inContent(hovered)} />}
          {hasFocus && <div class="focused" style={inContent(focused)} />}
        </div>
        <div class="hidden" role="treeitem" id={item} aria-level={tree.depth[focused] + 1} aria-posinset={where.position}
          aria-setsize={where.of} aria-selected="true" aria-expanded={tree.end[focused] > focused + 1 ? true : undefined}>
          {spoken(describe(profile, tree, focused), side)}
        </div>
      </div>
      {hasFocus && <div class="hidden" role="status">{spoken(describe(profile, tree, focused), side)}</div>}
      {shown !== undefined && (hovered === undefined || anchor) && (
        <Tooltip description={describe(profile, tree, shown)} lines={lines} times={tree.sides.map((s) => s.total[shown])}
          anchor={hovered === undefined ? keyboardAnchor() : anchor!} />
      )}
    </div>
  );
}
