import type { RefObject } from 'preact';
import { percent, plural } from '../format';
import type { Model } from '../model';
import type { Change, State } from '../state';
import { TypedText } from './typed';

interface Props {
  state: State;
  model: Model;
  change: Change;
  input: RefObject<HTMLInputElement | null>;
}

/** What is searched in each view. */
const hints = { graph: 'Search', sandwich: 'Search', functions: 'Search functions', labels: 'Search values' };

export function SearchBox({ state, model, change, input }: Props) {
  const { searchError } = model;
  const { found, tree } = model.graph?.is ?? {};
  return (
    <div class="field search" role="search">
      <TypedText value={state.search} set={(search) => change({ search })} input={input}
        label="Search frames" placeholder={`${hints[state.view]}: text or /regex/   (/)`} invalid={searchError !== undefined} describedBy="found" />
      <span id="found" class={searchError ? 'error' : 'found'} role="status">
        {searchError ??
          (state.view === 'graph' && found && tree &&
            `${plural(found.frames, 'frame')} · ${tree.sides
              .map((side, s) => percent(side.total[0] > 0 ? found.time[s] / side.total[0] : 0))
              .join(' | ')}`)}
      </span>
    </div>
  );
}
