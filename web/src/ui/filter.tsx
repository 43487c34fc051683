import { choiceOf, print, type Term } from '../filter';
import { duration, visible } from '../format';
import type { Model } from '../model';
import type { Change, State } from '../state';
import { TypedText } from './typed';

export function FilterBar({ state, model, change }: { state: State; model: Model; change: Change }) {
  return (
    <div class="field filter">
      <span class="label" aria-hidden="true">Filter</span>
      <TypedText value={state.filter} set={(filter) => change({ filter, zoom: [] })} label="Filter"
        placeholder="tenant=acme,route~^/pay" invalid={model.filterError !== undefined} describedBy="filter-error" />
      <span id="filter-error" class="error" role="status">{model.filterError && visible(model.filterError, 200)}</span>
      {state.range && (
        <span class="chip">
          {duration(state.range[0] * 1000)} – {duration(Math.min(state.range[1], model.profile.length) * 1000)}
          <button aria-label="Show all of the time" title="Remove" onClick={() => change({ range: undefined, zoom: [] })}>×</button>
        </span>
      )}
      {model.terms.map((term, at) => (
        <span class={term.operator.startsWith('!') ? 'chip out' : 'chip'} key={`${at} ${term.key}`}>
          <bdi title={visible(wordsOf(term), 1000)}>{visible(wordsOf(term), 48)}</bdi>
          <button aria-label={`Remove ${visible(wordsOf(term), 80)}`} title="Remove"
            onClick={() => change({ filter: print(model.terms.filter((t) => t !== term)), zoom: [] })}>×</button>
        </span>
      ))}
    </div>
  );
}

function wordsOf({ key, operator, value }: Term): string {
  const choice = operator === '~' ? choiceOf(value) : undefined;
  if (choice) return `${key} = ${choice.join(' or ')}`;
  if (operator === '=' && value === '') return `no ${key}`;
  if (operator === '!=' && value === '') return `any ${key}`;
  return `${key} ${operator.replace('!=', '≠')} ${value}`;
}
