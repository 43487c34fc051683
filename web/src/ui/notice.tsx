import type { Head } from '../data';
import { plural, visible } from '../format';

/** What the profile lacks: nothing is lost without a word. */
export function Notice({ profile }: { profile: Head }) {
  const all = profile.remarks.map((remark) => visible(remark, 500));
  if (all.length === 0) return null;
  const most = 200;
  return (
    <details class="notice">
      <summary>
        <span class="badge">{all.length}</span> {all[0]}
        {all.length > 1 ? ` (${plural(all.length - 1, 'more note')})` : ''}
      </summary>
      <ul>
        {all.slice(0, most).map((text) => <li><bdi>{text}</bdi></li>)}
        {all.length > most && <li>and {plural(all.length - most, 'more')}</li>}
      </ul>
    </details>
  );
}
