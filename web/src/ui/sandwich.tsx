import { useId, useMemo, useState } from 'preact/hooks';
import { dark, light } from '../colour';
import { duration, percent, visible } from '../format';
import type { Model } from '../model';
import { callees, callers, type Stacks } from '../perspective';
import { matcher, search } from '../search';
import type { State } from '../state';
import { functions } from '../tables';
import { build, type Tree } from '../tree';
import type { Change } from './app';
import { Pane } from './pane';
import type { Theme } from './theme';

interface Props {
  model: Model;
  state: State;
  change: Change;
  theme: Theme;
}

/** Names that are offered; any other can be typed. */
const most = 500;

/** Who calls a function, above, and what it calls, below. */
export function Sandwich({ model, state, change, theme }: Props) {
  const { profile, chosen, time } = model;
  const names = useId();
  const rows = useMemo(() => functions(profile, build(profile, [], [chosen])), [profile, chosen]);
  const known = useMemo(() => new Set(profile.frames.map((frame) => frame.name)), [profile]);
  const offered = useMemo(() => [...rows].sort((a, b) => b.total[0] - a.total[0]).slice(0, most), [rows]);
  // Where none was chosen: the function with the most time of its own.
  const first = useMemo(() => [...rows].sort((a, b) => b.self[0] - a.self[0])[0]?.name ?? '', [rows]);
  const name = known.has(state.focus) ? state.focus : first;
  const total = rows.reduce((sum, row) => sum + (row.name === name ? row.total[0] : 0), 0);
  const own = rows.reduce((sum, row) => sum + (row.name === name ? row.self[0] : 0), 0);
  const part = (ns: number) => (time > 0 ? percent(ns / time) : '');
  return (
    <section class="panel" id="panel-sandwich" role="tabpanel" aria-labelledby="tab-sandwich">
      <div class="focus">
        <label>Function{' '}
          <input type="text" list={names} spellcheck={false} autocomplete="off" value={visible(name, 1000)}
            key={name} aria-describedby={`${names}-time`}
            onChange={(event) => known.has(event.currentTarget.value) && change({ focus: event.currentTarget.value })} />
        </label>
        <datalist id={names}>{offered.map((row) => <option value={row.name} />)}</datalist>
        <span class="muted" id={`${names}-time`}>
          {part(total)} of all ({duration(total)}), {part(own)} in itself
        </span>
      </div>
      <div class="panes sandwich">
        <Half model={model} state={state} change={change} theme={theme} name={name} title="Callers" id={0} flame of={callers} />
        <Half model={model} state={state} change={change} theme={theme} name={name} title="Callees" id={1} of={callees} />
      </div>
    </section>
  );
}

interface HalfProps extends Props {
  name: string;
  title: string;
  id: number;
  flame?: boolean;
  of: (profile: Model['profile'], name: string) => Stacks;
}

/** A click leads to another function: that is looked at next. */
function Half({ model, state, change, theme, name, title, id, flame = false, of }: HalfProps) {
  const { profile, chosen } = model;
  const tree = useMemo(() => build(profile, [], [chosen], of(profile, name)), [profile, chosen, name]);
  const found = useMemo(() => {
    const matches = matcher(state.search);
    return typeof matches === 'function' ? search(profile, tree, matches) : undefined;
  }, [profile, tree, state.search]);
  const [focused, setFocused] = useState<{ tree: Tree; frame: number }>();
  const [hovered, setHovered] = useState<{ tree: Tree; frame: number }>();
  const at = (of: typeof focused) => (of?.tree === tree ? of.frame : undefined);
  return (
    <Pane model={{ ...model, tree, zoom: 0, found }} side={0} id={id} name={title} flame={flame}
      palette={theme === 'dark' ? dark : light} focused={at(focused) ?? Math.min(1, tree.size - 1)}
      setFocused={(frame) => setFocused({ tree, frame })} hovered={at(hovered)}
      setHovered={(frame) => setHovered(frame === undefined ? undefined : { tree, frame })}
      zoomTo={(frame) => tree.what[frame] >= 0 && change({ focus: profile.frames[tree.what[frame]].name })} />
  );
}
