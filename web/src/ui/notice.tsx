import type { Profile } from '../data';
import { plural, visible } from '../format';

/** What the profile lacks: nothing is lost without a word. */
export function Notice({ profile }: { profile: Profile }) {
  const { losses, problems } = profile;
  const lost: [number, string][] = [
    [losses.events, 'lost: there was no room for them'],
    [losses.truncated_stacks, 'with a stack that was cut'],
    [losses.truncated_labels, 'with a label cut or left out'],
    [losses.unread_labels, 'whose labels could not be read'],
  ];
  const said = lost.filter(([n]) => n > 0).map(([n, what]) => `${plural(n, 'sample')} ${what}`);
  const all = [...said, ...problems.map((p) => visible(p, 500))];
  if (all.length === 0) return null;
  const most = 200;
  return (
    <details class="notice">
      <summary>
        <span class="badge">{all.length}</span> {all[0]}
        {all.length > 1 ? ` and ${plural(all.length - 1, 'more note')}` : ''}
      </summary>
      <ul>
        {all.slice(0, most).map((text) => <li><bdi>{text}</bdi></li>)}
        {all.length > most && <li>and {plural(all.length - most, 'more')}</li>}
      </ul>
    </details>
  );
}
