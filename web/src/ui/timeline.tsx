import { ticks } from 'd3-array';
import { useRef, useState } from 'preact/hooks';
import { duration } from '../format';
import type { Model } from '../model';
import type { Range } from '../select';
import type { Change } from '../state';
import { useQuery } from './query';
import { useWidth } from './width';

interface Props {
  model: Model;
  range: Range | undefined;
  change: Change;
}

const height = 44;

/** Time spent over time; a range of it can be chosen with the pointer or the handles. */
export function Timeline({ model, range, change }: Props) {
  const surface = useRef<HTMLDivElement>(null);
  const width = useWidth(surface);
  const bins = Math.max(20, Math.floor(width / 4));
  const { length } = model.profile;
  const { shown: times } = useQuery(model.client, 'times', { ...model.scope, bins }, true);
  const most = Math.max(1, times?.is.all.reduce((a, b) => Math.max(a, b), 0) ?? 0);
  const [drag, setDrag] = useState<Range>();

  const at = (event: PointerEvent) => {
    const box = surface.current!.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * length;
  };
  const set = (a: number, b: number) => {
    const from = Math.max(0, Math.min(a, b));
    const to = Math.min(length, Math.max(a, b));
    change({ range: from <= 0 && to >= length ? undefined : [Math.round(from), Math.ceil(to)], zoom: [] });
  };
  const shown = drag ? ([Math.min(...drag), Math.max(...drag)] as const) : range;
  const x = (time: number) => `${(Math.min(time, length) / length) * 100}%`;

  const handle = (end: 0 | 1, name: string) => {
    const value = range ? range[end] : end * length;
    const other = range ? range[1 - end] : (1 - end) * length;
    return (
      <div class="handle" role="slider" tabIndex={0} aria-label={name} style={{ left: x(shown ? shown[end] : value) }}
        aria-valuemin={0} aria-valuemax={Math.round(length / 1000)} aria-valuenow={Math.round(value / 1000)}
        aria-valuetext={duration(value * 1000)}
        onKeyDown={(event) => {
          const step = (event.shiftKey ? 0.1 : 0.01) * length;
          const to: Record<string, number> = {
            ArrowLeft: value - step, ArrowDown: value - step, ArrowRight: value + step, ArrowUp: value + step,
            Home: 0, End: length,
          };
          if (event.key === 'Escape') change({ range: undefined, zoom: [] });
          else if (event.key in to) {
            const limit = length / 200;
            set(end === 0 ? Math.min(to[event.key], other - limit) : Math.max(to[event.key], other + limit), other);
          } else return;
          event.preventDefault();
        }} />
    );
  };
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="surface" ref={surface}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          surface.current!.setPointerCapture(event.pointerId);
          setDrag([at(event), at(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], at(event)])}
        onPointerUp={(event) => {
          if (!drag) return;
          const end = at(event);
          setDrag(undefined);
          // A mere click takes the range away.
          if (Math.abs(end - drag[0]) < length / 200) change({ range: undefined, zoom: [] });
          else set(drag[0], end);
        }}
        onPointerCancel={() => setDrag(undefined)}>
        <svg width="100%" height={height} viewBox={`0 0 ${times?.of.bins ?? bins} ${height}`} preserveAspectRatio="none" aria-hidden="true">
          {times && <path class="all" d={bars(times.is.all, most)} />}
          {times && <path class="now" d={bars(times.is.chosen, most)} />}
        </svg>
        {shown && <div class="outside" style={{ left: '0', width: x(shown[0]) }} />}
        {shown && <div class="outside" style={{ left: x(shown[1]), right: '0' }} />}
        {shown && <div class="range" style={{ left: x(shown[0]), width: `${((Math.min(shown[1], length) - shown[0]) / length) * 100}%` }} />}
        {handle(0, 'From')}
        {handle(1, 'To')}
      </div>
      <div class="axis" aria-hidden="true">
        {ticks(0, length / 1e6, Math.max(2, Math.floor(width / 110))).map((s) => (
          <span class={s === 0 ? 'first' : s * 1e6 > length * 0.98 ? 'last' : ''} style={{ left: x(s * 1e6) }}>{s === 0 ? '0' : `${+s.toPrecision(6)} s`}</span>
        ))}
      </div>
    </section>
  );
}

function bars(sums: Float64Array, most: number): string {
  let d = '';
  sums.forEach((sum, bin) => {
    if (sum <= 0) return;
    const top = height - Math.max(1, (sum / most) * (height - 4));
    d += `M${bin} ${height}V${top.toFixed(1)}h.8V${height}z`;
  });
  return d;
}
