import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { excluded, included, type Choice } from '../filter';
import { percent, plural, visible } from '../format';
import type { Model } from '../model';
import { useQuery } from './query';

export type Pick = (key: string, value: Choice, out: boolean) => void;

interface Props {
  model: Model;
  pick: Pick;
}

interface DrawerProps extends Props {
  /** On narrow screens, where the values are in a drawer. */
  open: boolean;
  close: () => void;
}

const few = 40;  // keys: each looks at all samples
const most = 100;  // values of one key; the table of labels has all

/** The values of each key beside the graph: a click wants one, with Shift or Alt leaves it out. */
export function Facets({ model, pick, open, close }: DrawerProps) {
  const { keys: all, labelKeys } = model.profile;
  const keys = labelKeys.concat(['process', 'thread'].filter((key) => all.includes(key) && !labelKeys.includes(key)));
  const [shown, setShown] = useState(few);
  const closing = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (open) closing.current?.focus();
  }, [open]);
  return <>
    {open && <div class="shade" onClick={close} />}
    <aside class={open ? 'facets open' : 'facets'} id="values" aria-label="Filter by value"
      onKeyDown={(event) => event.key === 'Escape' && close()}>
      <p class="drawer">
        <strong>Filter by value</strong>
        <button class="button" ref={closing} onClick={close}>Done</button>
      </p>
      {keys.slice(0, shown).map((key) => <Facet key={key} of={key} model={model} pick={pick} />)}
      {keys.length > shown && <button class="more" onClick={() => setShown(shown + few)}>{keys.length - shown} more keys</button>}
      <p class="hint mouse">Click selects a value, Shift+click excludes it.</p>
    </aside>
  </>;
}

function Facet({ of: key, model, pick }: Props & { of: string }) {
  const { client, terms } = model;
  const [all, setAll] = useState(false);
  // What the others let through, so that a second value can be added to the first.
  const others = terms.filter((term) => term.key !== key);
  const { shown: latest } = useQuery(client, 'values', {
    ...model.scope, terms: others, key, search: '', sorting: { by: 'time', down: true }, limit: most,
  }, true);
  if (!latest) return null;
  const { rows, count: known, whole: [total] } = latest.is;
  if (rows.length === 0 || (rows.length === 1 && rows[0].missing)) return null;
  const wanted = included(terms, key);
  const unwanted = excluded(terms, key);
  const first = 6;
  const shown = all ? rows : rows.length <= first + 1 ? rows : rows.slice(0, first);
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
      {rows.length > shown.length && !all && <button class="more" onClick={() => setAll(true)}>{known - shown.length} more</button>}
      {all && <button class="more" onClick={() => setAll(false)}>Fewer</button>}
    </section>
  );
}
