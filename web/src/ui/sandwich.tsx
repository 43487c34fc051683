import { useId, useMemo, useState } from 'preact/hooks';
import { dark, light } from '../colour';
import { heightOf } from '../draw';
import type { Half as Of, Picture } from '../engine';
import { duration, percent, visible } from '../format';
import { LineList } from './lines';
import type { Model } from '../model';
import type { Change, State } from '../state';
import type { Tree } from '../tree';
import { useQuery } from './query';
import { Pane } from './pane';
import type { Theme } from './theme';

interface Props {
  model: Model;
  state: State;
  change: Change;
  theme: Theme;
}

/** Who calls a function, above, and what it calls, below. */
export function Sandwich({ model, state, change, theme }: Props) {
  const names = useId();
  const { frames } = model.profile;
  const known = useMemo(() => new Set(frames.map((frame) => frame.name)), [frames]);
  const { shown } = useQuery(model.client, 'around', { ...model.scope, name: state.focus, search: state.search });
  if (!shown) return null;
  const { name, offered, total, self, whole, callers, callees, lines } = shown.is;
  const { measure, terms, range } = shown.of;
  const part = (ns: number) => (whole > 0 ? percent(ns / whole) : '');
  const half = { model, change, theme };
  return (
    <section class="panel" id="panel-sandwich" role="tabpanel" aria-labelledby="tab-sandwich">
      <div class="focus">
        <label>Function{' '}
          <input type="text" list={names} spellcheck={false} autocomplete="off" value={visible(name, 1000)}
            key={name} aria-describedby={`${names}-time`}
            onChange={(event) => known.has(event.currentTarget.value) && change({ focus: event.currentTarget.value })} />
        </label>
        <datalist id={names}>{offered.map((other) => <option value={other} />)}</datalist>
        <span class="muted" id={`${names}-time`}>
          {part(total)} of all ({duration(total)}), {part(self)} in itself
        </span>
        <LineList lines={lines} of={total} />
      </div>
      <div class="panes sandwich" style={{ '--tall': `${heightOf(callers.tree, 1)}px` }}>
        <Half {...half} of={{ measure, terms, range, half: 'callers', name }} picture={callers} title="Callers" id={0} flame />
        <Half {...half} of={{ measure, terms, range, half: 'callees', name }} picture={callees} title="Callees" id={1} />
      </div>
    </section>
  );
}

interface HalfProps extends Omit<Props, 'state'> {
  of: Of;
  picture: Picture;
  title: string;
  id: number;
  flame?: boolean;
}

/** A click leads to another function: that is looked at next. */
function Half({ model, change, theme, of, picture: { tree, found }, title, id, flame = false }: HalfProps) {
  const { profile, colours } = model;
  const [focused, setFocused] = useState<{ tree: Tree; frame: number }>();
  const [hovered, setHovered] = useState<{ tree: Tree; frame: number }>();
  const at = (of: typeof focused) => (of?.tree === tree ? of.frame : undefined);
  return (
    <Pane client={model.client} of={of} view={{ profile, colours, tree, zoom: 0, found }} side={0} id={id} name={title} flame={flame} hidden={1}
      palette={theme === 'dark' ? dark : light} focused={at(focused) ?? Math.min(1, tree.size - 1)}
      setFocused={(frame) => setFocused({ tree, frame })} hovered={at(hovered)}
      setHovered={(frame) => setHovered(frame === undefined ? undefined : { tree, frame })}
      zoomTo={(frame) => tree.what[frame] >= 0 && change({ focus: profile.frames[tree.what[frame]].name })} />
  );
}
