import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Description } from '../describe';
import { percent, plural } from '../format';
import type { Lines } from '../lines';
import { placeOf } from './lines';

export interface Anchor {
  x: number;
  y: number;
}

/** Beside a point, wherever there is room. */
export function Tooltip({ description, lines, times, anchor }: {
  description: Description;
  lines?: Lines;
  /** Of the frame, for each side. */
  times: number[];
  anchor: Anchor;
}) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const { style, offsetWidth, offsetHeight } = box.current!;
    const gap = 14;
    const right = anchor.x + gap + offsetWidth <= innerWidth - 4;
    const below = anchor.y + gap + offsetHeight <= innerHeight - 4;
    const x = right ? anchor.x + gap : Math.max(4, anchor.x - gap - offsetWidth);
    const y = below ? anchor.y + gap : Math.max(4, anchor.y - gap - offsetHeight);
    style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  });
  const { name, marks, where, sides, difference } = description;
  return (
    <div class="tooltip" ref={box} aria-hidden="true">
      <p class="name"><bdi>{name}</bdi>{marks.map((mark) => <span class="mark">{mark}</span>)}</p>
      {where.map((line) => <p class="where"><bdi>{line}</bdi></p>)}
      <table>
        <tbody>
          <tr><th>share</th>{sides.map((s) => <td><strong>{s.share}</strong></td>)}</tr>
          {sides.some((s) => s.ofParent) && <tr><th>of its caller</th>{sides.map((s) => <td>{s.ofParent}</td>)}</tr>}
          <tr><th>total</th>{sides.map((s) => <td>{s.total}</td>)}</tr>
          <tr><th>self</th>{sides.map((s) => <td>{s.self}</td>)}</tr>
          <tr><th>samples</th>{sides.map((s) => <td>{s.samples.replace(/ .*/, '')}</td>)}</tr>
          {lines?.rows.map((row) => (
            <tr><th>{placeOf(row)}</th>{row.time.map((ns, side) => <td>{times[side] > 0 ? percent(ns / times[side]) : ''}</td>)}</tr>
          ))}
          {lines !== undefined && lines.more > 0 && <tr><th>{plural(lines.more, 'more line')}</th></tr>}
          {difference && <tr><th>difference</th><td colSpan={2}>{difference} points</td></tr>}
        </tbody>
      </table>
    </div>
  );
}
