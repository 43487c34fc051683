import type { Profile } from '../data';
import type { State } from '../state';
import type { Change } from './app';

export function Empty({ profile, state, change }: { profile: Profile; state: State; change: Change }) {
  if (profile.samples.count === 0)
    return (
      <div class="empty">
        <h2>No samples</h2>
        <p>Nothing ran while this profile was taken, or nothing could be read: see the notes above.</p>
      </div>
    );
  return (
    <div class="empty">
      <h2>No sample is left</h2>
      <p>
        {state.filter ? <>No sample fits <code>{state.filter.slice(0, 200)}</code>{state.range ? ' in the chosen range of time' : ''}.</>
          : 'There is nothing in the chosen range of time.'}
      </p>
      <p>
        {state.filter && <button class="button" onClick={() => change({ filter: '' })}>Clear the filter</button>}{' '}
        {state.range && <button class="button" onClick={() => change({ range: undefined })}>Show all of the time</button>}
      </p>
    </div>
  );
}
