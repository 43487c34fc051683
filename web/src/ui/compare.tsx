import { shownValue } from '../dimensions';
import { duration, visible } from '../format';
import type { Model } from '../model';
import type { Compare, Measure } from '../select';
import type { Change, State } from '../state';
import { useQuery } from './query';

interface Props {
  state: State;
  model: Model;
  compare: Compare;
  change: Change;
}

/** Values that can be chosen from a list; more can be had from the address. */
const most = 200;

/** The values of a key that have the most time, whatever the filter says. */
export const heaviest = (measure: Measure, key: string, limit: number) => ({
  measure, key, terms: [], search: '', sorting: { by: 'time', down: true }, limit: limit + 1,
});

export function CompareBar({ state, model, compare, change }: Props) {
  const { client, profile, graph } = model;
  const set = (to: Compare) => change({ compare: to, zoom: [] });
  const { shown } = useQuery(client, 'values', heaviest(state.measure, compare.key, most));
  const values = shown?.of.key === compare.key ? shown.is.rows.flatMap((row) => row.choice ?? []) : [];
  const options = (also: string | undefined, but: string | undefined) => {
    const chosen = values.filter((value) => value !== but);
    if (also !== undefined && !chosen.includes(also)) chosen.unshift(also);
    return chosen.map((value) => <option value={`=${value}`}>{visible(shownValue(value), 60)}</option>);
  };
  const setKey = async (key: string) => {
    const { rows } = await client.query('values', heaviest(state.measure, key, 1));
    set({ key, value: rows.find((row) => !row.missing)?.choice ?? '' });
  };
  const whole = (side: number) => duration(graph?.is.tree.sides[side]?.total[0] ?? 0);
  return (
    <div class="comparebar" role="group" aria-label="Compare">
      <label>Compare{' '}
        <select aria-label="Key to compare" value={compare.key} onChange={(e) => void setKey(e.currentTarget.value)}>
          {profile.keys.map((key) => <option value={key}>{visible(key, 60)}</option>)}
        </select>
      </label>
      <select aria-label="Left side" value={`=${compare.value}`}
        onChange={(e) => set({ ...compare, value: e.currentTarget.value.slice(1) })}>
        {options(compare.value, compare.against)}
      </select>
      <span class="muted">{whole(0)}</span>
      <button class="icon" title="Swap the sides" aria-label="Swap the sides" disabled={compare.against === undefined}
        onClick={() => compare.against !== undefined && set({ ...compare, value: compare.against, against: compare.value })}>⇄</button>
      <label>with{' '}
        <select aria-label="Right side" value={compare.against === undefined ? '' : `=${compare.against}`}
          onChange={(e) => set({ ...compare, against: e.currentTarget.value === '' ? undefined : e.currentTarget.value.slice(1) })}>
          <option value="">all other values</option>
          {options(compare.against, compare.value)}
        </select>{' '}
        <span class="muted">{whole(1)}</span>
      </label>
      <span class="scale" aria-hidden="true"><i class="less" /> less <i class="same" /> <i class="more" /> more of its side than of the other side</span>
    </div>
  );
}
