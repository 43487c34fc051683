import { useState } from 'preact/hooks';
import { excluded, included } from '../filter';
import { count, duration, percent, visible } from '../format';
import type { Model } from '../model';
import type { Change, State } from '../state';
import { useQuery } from './query';
import type { Pick } from './facets';
import { More, rowsAtFirst, SortHeading, useSorting } from './table';

interface Props {
  model: Model;
  state: State;
  change: Change;
  pick: Pick;
}

const manyKeys = 100;

/** Time by value of one key. */
export function Labels({ model, state, change, pick }: Props) {
  const { keys } = model.profile;
  const key = keys.includes(state.labelKey) ? state.labelKey : keys[0];
  if (key === undefined) return <div class="empty"><h2>No labels</h2><p>No sample of this profile has labels.</p></div>;
  return <ValuesOf of={key} keys={keys} model={model} state={state} change={change} pick={pick} />;
}

function ValuesOf({ of: key, keys, model, state, change, pick }: Props & { of: string; keys: readonly string[] }) {
  const { terms } = model;
  const [sorting, sort] = useSorting('time');
  const [limit, setLimit] = useState(rowsAtFirst);
  const [keysShown, setKeysShown] = useState(manyKeys);
  const { shown } = useQuery(model.client, 'values', { ...model.scope, key, search: state.search, sorting, limit });
  const rows = shown?.of.key === key ? shown.is.rows : [];
  const time = shown?.is.whole[0] ?? 0;
  const wanted = included(terms, key);
  const unwanted = excluded(terms, key);
  return (
    <section class="panel" id="panel-labels" role="tabpanel" aria-labelledby="tab-labels">
      <div class="keys" role="group" aria-label="Key">
        {keys.filter((k, i) => i < keysShown || k === key).map((k) => (
          <button class="choice" aria-pressed={k === key} onClick={() => change({ labelKey: k })}>{visible(k, 60)}</button>
        ))}
        {keys.length > keysShown &&
          <button class="more" onClick={() => setKeysShown(keysShown + manyKeys)}>{keys.length - keysShown} more</button>}
        <button class="button" disabled={state.groupBy.includes(key)}
          onClick={() => change({ groupBy: [...state.groupBy, key], zoom: [], view: 'graph' })}>Group by {visible(key, 40)}</button>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Values">
        <table>
          <thead>
            <tr>
              <SortHeading name="value" title={visible(key, 60)} sorting={sorting} sort={sort} />
              <SortHeading name="time" title="Time" number sorting={sorting} sort={sort} />
              <th scope="col" class="number">Share</th>
              <SortHeading name="samples" title="Samples" number class="samples" sorting={sorting} sort={sort} />
              <th scope="col"><span class="hidden">Filter</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const share = time > 0 ? row.time / time : 0;
              return (
                <tr>
                  <th scope="row">
                    <button class="link" onClick={(e) => pick(key, row.choice, e.shiftKey || e.altKey)} title={visible(row.value, 1000)}>
                      <bdi class={row.missing ? 'missing' : ''}>{row.missing ? row.value : visible(row.value, 120) || '(empty)'}</bdi>
                    </button>
                  </th>
                  <td class="number">{duration(row.time)}</td>
                  <td class="number share"><span class="bar" style={{ width: `${share * 100}%` }} /><span>{percent(share)}</span></td>
                  <td class="number samples">{count(row.samples)}</td>
                  <td class="number">
                    <button class="small" aria-pressed={wanted.includes(row.choice)} onClick={() => pick(key, row.choice, false)}>only</button>{' '}
                    <button class="small" aria-pressed={unwanted.includes(row.choice)} onClick={() => pick(key, row.choice, true)}>not</button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
        <More rows={shown?.is.count ?? 0} shown={limit} set={setLimit} />
      </div>
    </section>
  );
}
