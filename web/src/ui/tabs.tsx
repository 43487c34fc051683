import type { Model } from '../model';
import type { Change, State, View } from '../state';
import { heaviest } from './compare';

const views: [View, string][] = [
  ['graph', 'Flame graph'],
  ['sandwich', 'Callers'],
  ['functions', 'Functions'],
  ['labels', 'Labels'],
];

interface Props {
  state: State;
  change: Change;
  model: Model;
  /** Opens the drawer of values, on narrow screens. */
  showValues: () => void;
}

export function Tabs({ state, change, model, showValues }: Props) {
  const turn = (event: KeyboardEvent, by: number) => {
    const at = views.findIndex(([view]) => view === state.view);
    const [view] = views[(at + by + views.length) % views.length];
    change({ view });
    event.preventDefault();
    document.getElementById(`tab-${view}`)?.focus();
  };
  const { keys, labelKeys } = model.profile;
  const compare = async () => {
    const key = state.groupBy.find((k) => labelKeys.includes(k)) ?? keys[0];
    const { rows } = await model.client.query('values', heaviest(state.measure, key, 1));
    const first = rows.find((row) => !row.missing)?.choice;
    if (first !== undefined) change({ compare: { key, value: first }, zoom: [] });
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label="View" class="tablist"
        onKeyDown={(event) => {
          if (event.key === 'ArrowRight') turn(event, 1);
          if (event.key === 'ArrowLeft') turn(event, -1);
        }}>
        {views.map(([view, name]) => (
          <button role="tab" id={`tab-${view}`} aria-selected={state.view === view} aria-controls={`panel-${view}`}
            tabIndex={state.view === view ? 0 : -1} onClick={() => change({ view })}>{name}</button>
        ))}
      </div>
      <div class="tools">
        <button class="button drawer" aria-controls="values" onClick={showValues}>Filter by value</button>
        {state.view === 'graph' && (
          <div class="segmented" role="group" aria-label="Order">
            <button class="choice" aria-pressed={!state.inverted} onClick={() => change({ inverted: false, zoom: [] })} title="From the roots to what they call">Calls</button>
            <button class="choice" aria-pressed={state.inverted} onClick={() => change({ inverted: true, zoom: [] })} title="From where time was spent to the callers">Inverted</button>
          </div>
        )}
        {state.view === 'graph' && (
          <div class="segmented" role="group" aria-label="Direction">
            <button class="choice" aria-pressed={!state.flame} onClick={() => change({ flame: false })} title="Roots at the top">Icicle</button>
            <button class="choice" aria-pressed={state.flame} onClick={() => change({ flame: true })} title="Roots at the bottom">Flame</button>
          </div>
        )}
        {keys.length > 0 && state.view !== 'sandwich' && (
          <button class="button" aria-pressed={state.compare !== undefined}
            onClick={() => (state.compare ? change({ compare: undefined, zoom: [] }) : void compare())}>Compare</button>
        )}
      </div>
    </div>
  );
}
