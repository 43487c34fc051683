import { useMemo, useState } from 'preact/hooks';
import { excluded, included, type Choice } from '../filter';
import { percent, plural, visible } from '../format';
import type { Model } from '../model';
import { select } from '../select';
import type { State } from '../state';
import { values } from '../tables';

export type Pick = (key: string, value: Choice, out: boolean) => void;

interface Props {
  model: Model;
  state: State;
  pick: Pick;
}

const few = 40;  // keys: each looks at all samples

/** The values of each key beside the graph: a click wants one, with Shift or Alt leaves it out. */
export function Facets({ model, state, pick }: Props) {
  const keys = model.dimensions.labelKeys.concat(
    ['process', 'thread'].filter((key) => model.dimensions.keys.includes(key) && !model.dimensions.labelKeys.includes(key)),
  );
  const [shown, setShown] = useState(few);
  return (
    <aside class="facets" aria-label="Filter by value">
      {keys.slice(0, shown).map((key) => <Facet key={key} of={key} model={model} state={state} pick={pick} />)}
      {keys.length > shown && <button class="more" onClick={() => setShown(shown + few)}>{keys.length - shown} more keys</button>}
      <p class="hint">Click selects a value, Shift+click excludes it.</p>
    </aside>
  );
}

function Facet({ of: key, model, state, pick }: Props & { of: string }) {
  const { profile, dimensions, terms } = model;
  const [all, setAll] = useState(false);
  // What the others let through, so that a second value can be added to the first.
  const rows = useMemo(() => {
    const others = terms.filter((term) => term.key !== key);
    return values(profile, dimensions.get(key), select(profile, dimensions, state.measure, others, state.range));
  }, [profile, terms, state.measure, state.range]);
  if (rows.length === 0 || (rows.length === 1 && rows[0].missing)) return null;
  const total = rows.reduce((sum, row) => sum + row.time, 0);
  const wanted = included(terms, key);
  const unwanted = excluded(terms, key);
  const first = 6;
  const shown = all ? rows.slice(0, 100) : rows.length <= first + 1 ? rows : rows.slice(0, first);
  return (
    <section class="facet" aria-label={visible(key, 80)}>
      <h2><bdi>{visible(key, 60)}</bdi></h2>
      <ul>
        {shown.map((row) => {
          const on = wanted.includes(row.choice);
          const off = unwanted.includes(row.choice);
          const share = total > 0 ? row.time / total : 0;
          return (
            <li>
              <button class={`value${on ? ' on' : ''}${off ? ' off' : ''}${row.missing ? ' missing' : ''}`} aria-pressed={on}
                title={`${visible(row.value, 1000) || '(empty)'}\n${percent(share)}, ${plural(row.samples, 'sample')}`}
                onClick={(event) => pick(key, row.choice, event.shiftKey || event.altKey)}>
                <span class="bar" style={{ width: `${share * 100}%` }} />
                <bdi class="name">{row.missing ? row.value : visible(row.value, 80) || '(empty)'}</bdi>
                <span class="share">{percent(share)}</span>
              </button>
            </li>
          );
        })}
      </ul>
      {rows.length > shown.length && !all && <button class="more" onClick={() => setAll(true)}>{rows.length - shown.length} more</button>}
      {all && <button class="more" onClick={() => setAll(false)}>Fewer</button>}
    </section>
  );
}
