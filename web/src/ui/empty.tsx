import type { Overview } from '../engine';
import type { Change, State } from '../state';

export function Empty({ profile, state, change }: { profile: Overview; state: State; change: Change }) {
  if (!profile.hasSamples)
    return (
      <div class="empty">
        <h2>No samples</h2>
        <p>No thread ran during this profile, or no data could be read: see the notes above.</p>
      </div>
    );
  return (
    <div class="empty">
      <h2>No matching samples</h2>
      <p>
        {state.filter ? <>No sample matches <code>{state.filter.slice(0, 200)}</code>{state.range ? ' in the chosen range of time' : ''}.</>
          : 'The chosen range of time has no samples.'}
      </p>
      <p>
        {state.filter && <button class="button" onClick={() => change({ filter: '' })}>Clear the filter</button>}{' '}
        {state.range && <button class="button" onClick={() => change({ range: undefined })}>Show all of the time</button>}
      </p>
    </div>
  );
}
