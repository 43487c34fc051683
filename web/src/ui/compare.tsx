import { useMemo } from 'preact/hooks';
import { duration, visible } from '../format';
import type { Model } from '../model';
import { select } from '../select';
import type { Compare, State } from '../state';
import { values } from '../tables';
import type { Change } from './app';

interface Props {
  state: State;
  model: Model;
  compare: Compare;
  change: Change;
}

/** Values that can be chosen from a list; more can be had from the address. */
const most = 200;

export function CompareBar({ state, model, compare, change }: Props) {
  const { profile, dimensions } = model;
  const set = (to: Compare) => change({ compare: to, zoom: [] });
  const rows = useMemo(() => {
    const chosen = select(profile, dimensions, state.measure, [], undefined);
    return values(profile, dimensions.get(compare.key), chosen).filter((row) => !row.missing).slice(0, most);
  }, [profile, compare.key, state.measure]);
  const options = (also: string | undefined, but: string | undefined) => {
    const names = rows.map((row) => row.value).filter((value) => value !== but);
    if (also !== undefined && !names.includes(also)) names.unshift(also);
    return names.map((value) => <option value={`=${value}`}>{visible(value, 60)}</option>);
  };
  const first = (key: string) => {
    const chosen = select(profile, dimensions, state.measure, [], undefined);
    return values(profile, dimensions.get(key), chosen).find((row) => !row.missing)?.value ?? '';
  };
  const [a, b] = model.tree.sides;
  return (
    <div class="comparebar" role="group" aria-label="Compare">
      <label>Compare{' '}
        <select aria-label="Key to compare" value={compare.key} onChange={(e) => set({ key: e.currentTarget.value, value: first(e.currentTarget.value) })}>
          {dimensions.keys.map((key) => <option value={key}>{visible(key, 60)}</option>)}
        </select>
      </label>
      <select aria-label="Left side" value={`=${compare.value}`}
        onChange={(e) => set({ ...compare, value: e.currentTarget.value.slice(1) })}>
        {options(compare.value, compare.against)}
      </select>
      <span class="muted">{duration(a.total[0])}</span>
      <button class="icon" title="Swap the sides" aria-label="Swap the sides" disabled={compare.against === undefined}
        onClick={() => compare.against !== undefined && set({ ...compare, value: compare.against, against: compare.value })}>⇄</button>
      <label>with{' '}
        <select aria-label="Right side" value={compare.against === undefined ? '' : `=${compare.against}`}
          onChange={(e) => set({ ...compare, against: e.currentTarget.value === '' ? undefined : e.currentTarget.value.slice(1) })}>
          <option value="">all other values</option>
          {options(compare.against, compare.value)}
        </select>
      </label>
      <span class="muted">{duration(b?.total[0] ?? 0)}</span>
      <span class="scale" aria-hidden="true"><i class="less" /> less <i class="same" /> <i class="more" /> more of its side than of the other side</span>
    </div>
  );
}
