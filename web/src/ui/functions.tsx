import { useMemo, useState } from 'preact/hooks';
import { baseName, duration, percent, points, visible } from '../format';
import { escapeRegex } from '../filter';
import type { Model } from '../model';
import { matcher } from '../search';
import type { State } from '../state';
import { functions, type FunctionRow } from '../tables';
import type { Change } from './app';
import { More, SortHeading, useSorting } from './table';

/** Functions by the time in them, of one side or of two. */
export function Functions({ model, state, change }: { model: Model; state: State; change: Change }) {
  const { profile, tree } = model;
  const two = tree.sides.length > 1;
  const [sorting, sort] = useSorting('self');
  const [shown, setShown] = useState(200);
  const rows = useMemo(() => functions(profile, tree), [profile, tree]);
  const whole = tree.sides.map((side) => side.total[0]);
  const share = (time: number[], side: number) => (whole[side] > 0 ? time[side] / whole[side] : 0);
  const difference = (row: FunctionRow) => share(row.total, 0) - share(row.total, 1);
  const sorted = useMemo(() => {
    const matches = matcher(state.search);
    const wanted = typeof matches === 'function' ? rows.filter((r) => matches(r.name) || matches(r.module)) : rows;
    const by: Record<string, (a: FunctionRow, b: FunctionRow) => number> = {
      name: (a, b) => b.name.localeCompare(a.name),
      self: (a, b) => a.self[0] - b.self[0],
      total: (a, b) => a.total[0] - b.total[0],
      self2: (a, b) => a.self[1] - b.self[1],
      total2: (a, b) => a.total[1] - b.total[1],
      difference: (a, b) => difference(a) - difference(b),
    };
    return [...wanted].sort((by[sorting.by] && ((a, b) => by[sorting.by](a, b) * (sorting.down ? -1 : 1))) || undefined);
  }, [rows, sorting, state.search]);
  const left = visible(state.compare?.value ?? '', 12);
  const right = state.compare?.against === undefined ? 'other' : visible(state.compare.against, 12);
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
            {sorted.slice(0, shown).map((row) => (
              <tr key={row.frame}>
                {cell(row.self, 0)}
                {cell(row.total, 0)}
                {two && cell(row.self, 1)}
                {two && cell(row.total, 1)}
                {two && <td class={`number ${difference(row) > 0.0005 ? 'more' : difference(row) < -0.0005 ? 'less' : ''}`}>{points(difference(row))}</td>}
                <th scope="row">
                  <button class="link" title={`${visible(row.name, 1000)}\nShow in the graph`}
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
        <More rows={sorted.length} shown={shown} set={setShown} />
      </div>
    </section>
  );
}
