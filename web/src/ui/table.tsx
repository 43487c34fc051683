// What the tables have in common.
import { useState } from 'preact/hooks';
import type { Sorting } from '../engine';
import { count } from '../format';

export function useSorting(by: string): [Sorting, (by: string) => void] {
  const [sorting, set] = useState<Sorting>({ by, down: true });
  return [sorting, (column) => set((before) => ({ by: column, down: before.by === column ? !before.down : true }))];
}

interface HeadingProps {
  name: string;
  title: string;
  number?: boolean;
  class?: string;
  sorting: Sorting;
  sort: (by: string) => void;
}

export function SortHeading({ name, title, number, class: more = '', sorting, sort }: HeadingProps) {
  const chosen = sorting.by === name;
  return (
    <th scope="col" class={`${number ? 'number' : ''} ${more}`} aria-sort={chosen ? (sorting.down ? 'descending' : 'ascending') : 'none'}>
      <button class="sort" onClick={() => sort(name)}>
        {title}<span aria-hidden="true" class="arrow">{chosen ? (sorting.down ? '↓' : '↑') : ''}</span>
      </button>
    </th>
  );
}

/** Few enough that the browser lays them out between two frames. */
export const rowsAtFirst = 100;

/** A way to see more rows than are there at first. */
export function More({ rows, shown, set }: { rows: number; shown: number; set: (shown: number) => void }) {
  if (rows <= shown) return null;
  return (
    <p class="hint">
      {count(shown)} of {count(rows)} rows.{' '}
      <button class="button" onClick={() => set(shown + 200)}>Show more</button>
    </p>
  );
}
