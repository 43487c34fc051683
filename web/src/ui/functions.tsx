import { useState } from 'preact/hooks';
import { baseName, brief, duration, percent, points, visible } from '../format';
import { sourceOf } from '../describe';
import { escapeRegex } from '../filter';
import type { Model } from '../model';
import type { Change, State } from '../state';
import type { FunctionRow } from '../tables';
import { useQuery } from './query';
import { More, rowsAtFirst, SortHeading, useSorting } from './table';

/** Functions by the time in them, of one side or of two. */
export function Functions({ model, state, change }: { model: Model; state: State; change: Change }) {
  const [sorting, sort] = useSorting('self');
  const [limit, setLimit] = useState(rowsAtFirst);
  const { groupBy, compare, search } = state;
  const { shown } = useQuery(model.client, 'functions', { ...model.scope, groupBy, compare, search, sorting, limit });
  if (!shown) return null;
  const { rows, count, whole } = shown.is;
  const two = whole.length > 1;
  const share = (time: number[], side: number) => (whole[side] > 0 ? time[side] / whole[side] : 0);
  const difference = (row: FunctionRow) => share(row.total, 0) - share(row.total, 1);
  const left = brief(compare?.value ?? '', 14);
  const right = compare?.against === undefined ? 'other' : brief(compare.against, 14);
  const heading = (name: string, title: string, number = true) => (
    <SortHeading name={name} title={title} number={number} sorting={sorting} sort={sort} />
  );
  const cell = (time: number[], side: number) => (
    <td class="number share" title={duration(time[side])}>
      <span class="bar" style={{ width: `${share(time, side) * 100}%` }} />
      <span>{percent(share(time, side))}</span>
      {!two && <span class="time">{duration(time[side])}</span>}
    </td>
  );
  return (
    <section class="panel" id="panel-functions" role="tabpanel" aria-labelledby="tab-functions">
      <div class="scroll" tabIndex={0} role="region" aria-label="Functions">
        <table class={two ? 'functions two' : 'functions'}>
          <thead>
            <tr>
              {heading('self', two ? `Self, ${left}` : 'Self')}
              {heading('total', two ? `Total, ${left}` : 'Total')}
              {two && heading('self2', `Self, ${right}`)}
              {two && heading('total2', `Total, ${right}`)}
              {two && heading('difference', 'Points')}
              {heading('name', 'Function', false)}
              <th scope="col"><span class="hidden">Callers</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.frame}>
                {cell(row.self, 0)}
                {cell(row.total, 0)}
                {two && cell(row.self, 1)}
                {two && cell(row.total, 1)}
                {two && <td class={`number ${difference(row) > 0.0005 ? 'more' : difference(row) < -0.0005 ? 'less' : ''}`}>{points(difference(row))}</td>}
                <th scope="row">
                  <button class="link" title={[visible(row.name, 1000), sourceOf(model.profile.frames[row.frame]), 'Show in the graph'].filter(Boolean).join('\n')}
                    onClick={() => change({ view: 'graph', zoom: [], search: `/^${escapeRegex(row.name)}$/` })}>
                    <bdi>{visible(row.name, 200)}</bdi>
                  </button>
                  {row.module && <bdi class="module" title={visible(row.module)}>{visible(baseName(row.module), 60)}</bdi>}
                </th>
                <td class="number">
                  <button class="small" aria-label={`Callers and callees of ${visible(row.name, 200)}`}
                    onClick={() => change({ view: 'sandwich', focus: row.name })}>callers</button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        <More rows={count} shown={limit} set={setLimit} />
      </div>
    </section>
  );
}
