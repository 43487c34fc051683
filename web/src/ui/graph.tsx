import { useCallback, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { dark, light } from '../colour';
import { nameOf } from '../draw';
import { visible } from '../format';
import type { Model } from '../model';
import type { Change, State } from '../state';
import { follow, pathOf } from '../tree';
import type { Result } from './query';
import { Legend } from './legend';
import { Pane } from './pane';
import type { Theme } from './theme';

interface Props {
  model: Model;
  graph: Result<'graph'>;
  state: State;
  change: Change;
  theme: Theme;
}

export function Graph({ model, graph, state, change, theme }: Props) {
  const { profile, colours } = model;
  const { tree, found } = graph.is;
  const { compare } = graph.of;
  // At once, in the tree at hand; one that shows more of it follows.
  const zoom = useMemo(() => follow(tree, state.zoom), [tree, state.zoom]);
  const palette = theme === 'dark' ? dark : light;
  const path = (frame: number) => pathOf(tree, frame).slice(1).map((i) => tree.what[i]);
  const [focus, setFocus] = useState<number[]>();
  const focused = useMemo(() => (focus ? follow(tree, focus) : zoom), [tree, focus, zoom]);
  const setFocused = (frame: number) => setFocus(path(frame));
  // Of this tree: another tree has other frames.
  const [hovered, setHovered] = useState<{ tree: object; frame: number }>();
  const of = (at: typeof hovered) => (at?.tree === tree ? at.frame : undefined);
  const zoomTo = useCallback(
    (frame: number) => {
      change({ zoom: path(frame) });
      setFocused(frame);
    },
    [tree],
  );
  // The end of the way is what one looks at.
  const crumbs = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    crumbs.current!.scrollLeft = crumbs.current!.scrollWidth;
  }, [tree, zoom]);
  const names = compare
    ? [visible(compare.value, 60), compare.against === undefined ? 'all other values' : visible(compare.against, 60)]
    : [''];
  return (
    <section class="panel" id="panel-graph" role="tabpanel" aria-labelledby="tab-graph">
      <nav class="crumbs" aria-label="Zoom">
        <div class="path" ref={crumbs}>
          {zoom === 0 && <>
            <span class="mouse">Click a frame to zoom, or use the arrow keys and Enter</span>
            <span class="finger">Tap a frame to see it, tap again to zoom</span>
          </>}
          {zoom > 0 && pathOf(tree, zoom).map((i) =>
            i === zoom ? (
              <span aria-current="true"><bdi>{nameOf(profile, tree, i, 60)}</bdi></span>
            ) : (
              <><button class="link" onClick={() => zoomTo(i)}><bdi>{nameOf(profile, tree, i, 60)}</bdi></button><i>›</i></>
            ),
          )}
        </div>
        {zoom > 0 && tree.what[zoom] >= 0 && (
          <button class="button" onClick={() => change({ view: 'sandwich', focus: profile.frames[tree.what[zoom]].name })}>Callers</button>
        )}
        {zoom > 0 && <button class="button" onClick={() => zoomTo(0)}>Reset zoom</button>}
      </nav>
      <div class={names.length > 1 ? 'panes two' : 'panes'}>
        {names.map((name, side) => (
          <Pane key={side} client={model.client} of={graph.of} view={{ profile, colours, tree, zoom, found }} side={side} name={name} flame={state.flame} palette={palette}
            focused={focused} setFocused={setFocused}
            hovered={of(hovered)} setHovered={(frame) => setHovered(frame === undefined ? undefined : { tree, frame })}
            zoomTo={zoomTo} />
        ))}
      </div>
      <Legend profile={profile} tree={tree} colours={colours} palette={palette} comparing={names.length > 1} />
    </section>
  );
}
