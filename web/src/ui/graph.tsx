import { useCallback, useState } from 'preact/hooks';
import { dark, light } from '../colour';
import { nameOf } from '../draw';
import { visible } from '../format';
import type { Model } from '../model';
import type { State } from '../state';
import { pathOf } from '../tree';
import type { Change } from './app';
import { Legend } from './legend';
import { Pane } from './pane';
import type { Theme } from './theme';

interface Props {
  model: Model;
  state: State;
  change: Change;
  theme: Theme;
}

export function Graph({ model, state, change, theme }: Props) {
  const { profile, tree, zoom } = model;
  const palette = theme === 'dark' ? dark : light;
  // Of this tree: another tree has other frames.
  const [focused, setFocused] = useState<{ tree: object; frame: number }>();
  const [hovered, setHovered] = useState<{ tree: object; frame: number }>();
  const of = (at: typeof focused) => (at?.tree === tree ? at.frame : undefined);
  const zoomTo = useCallback(
    (frame: number) => {
      change({ zoom: pathOf(tree, frame).slice(1).map((i) => tree.what[i]) });
      setFocused({ tree, frame });
    },
    [tree],
  );
  const names = state.compare
    ? [visible(state.compare.value, 60), state.compare.against === undefined ? 'all other values' : visible(state.compare.against, 60)]
    : [''];
  return (
    <section class="panel" id="panel-graph" role="tabpanel" aria-labelledby="tab-graph">
      <nav class="crumbs" aria-label="Zoom">
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
        {zoom > 0 && tree.what[zoom] >= 0 && (
          <button class="button" onClick={() => change({ view: 'sandwich', focus: profile.frames[tree.what[zoom]].name })}>Callers</button>
        )}
        {zoom > 0 && <button class="button" onClick={() => zoomTo(0)}>Reset zoom</button>}
      </nav>
      <div class={names.length > 1 ? 'panes two' : 'panes'}>
        {names.map((name, side) => (
          <Pane key={side} model={model} side={side} name={name} flame={state.flame} palette={palette}
            focused={of(focused) ?? zoom} setFocused={(frame) => setFocused({ tree, frame })}
            hovered={of(hovered)} setHovered={(frame) => setHovered(frame === undefined ? undefined : { tree, frame })}
            zoomTo={zoomTo} />
        ))}
      </div>
      <Legend model={model} palette={palette} comparing={names.length > 1} />
    </section>
  );
}
