import { visible } from '../format';
import type { Change } from '../state';

interface Props {
  keys: readonly string[];
  chosen: readonly string[];
  change: Change;
}

/** Keys whose values become the root frames, the outermost first. */
export function GroupBy({ keys, chosen, change }: Props) {
  const set = (groupBy: string[]) => change({ groupBy, zoom: [] });
  const outwards = (at: number) => {
    const moved = [...chosen];
    moved.splice(at - 1, 2, moved[at], moved[at - 1]);
    set(moved);
  };
  return (
    <div class="field group" role="group" aria-label="Group by">
      <span class="label">Group by</span>
      {chosen.map((key, at) => (
        <span class="chip" key={key}>
          {at > 0 && (
            <button onClick={() => outwards(at)} aria-label={`Move ${visible(key, 80)} outwards`} title="Move outwards">‹</button>
          )}
          <bdi>{visible(key, 40)}</bdi>
          <button onClick={() => set(chosen.filter((k) => k !== key))} aria-label={`Do not group by ${visible(key, 80)}`} title="Remove">×</button>
        </span>
      ))}
      <select aria-label="Group by another key" value=""
        onChange={(event) => {
          const key = event.currentTarget.value;
          event.currentTarget.value = '';
          if (key !== '') set([...chosen, key]);
        }}>
        <option value="">{chosen.length === 0 ? 'none' : '+'}</option>
        {keys.filter((key) => !chosen.includes(key)).map((key) => <option value={key}>{visible(key, 60)}</option>)}
      </select>
    </div>
  );
}
