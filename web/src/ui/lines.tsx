import { useEffect, useState } from 'preact/hooks';
import type { Client } from '../client';
import type { Half, Rooted } from '../engine';
import { baseName, percent, plural, visible } from '../format';
import type { LineRow, Lines } from '../lines';
import { pathOf, type Tree } from '../tree';

/** Milliseconds for which a frame is looked at before its lines are asked for. */
const rest = 80;

/** The lines of a frame that is looked at, when they are there. */
export function useLines(client: Client, of: Rooted | Half, tree: Tree, frame: number | undefined): Lines | undefined {
  const [known, setKnown] = useState<{ tree: Tree; frame: number; lines: Lines }>();
  useEffect(() => {
    if (frame === undefined || tree.what[frame] < 0 || !client.overview.hasLines) return;
    let wanted = true;
    const waiting = setTimeout(() => {
      const path = pathOf(tree, frame).slice(1).map((i) => tree.what[i]);
      client.query('lines', { tree: of, path }).then((lines) => wanted && setKnown({ tree, frame, lines }), () => {});
    }, rest);
    return () => {
      wanted = false;
      clearTimeout(waiting);
    };
  }, [client, tree, frame]);
  return known && known.tree === tree && known.frame === frame ? known.lines : undefined;
}

export function placeOf({ source, line }: LineRow): string {
  return `${visible(baseName(source), 80)}:${line}`;
}

/** The lines of a function, in a row. */
export function LineList({ lines: { rows, more }, of: whole }: { lines: Lines; of: number }) {
  if (rows.length === 0) return null;
  return (
    <ul class="lines" aria-label="Time by line">
      {rows.map((row) => (
        <li title={`${visible(row.source, 1000)}:${row.line}`}>
          <bdi>{placeOf(row)}</bdi> <strong>{percent(whole > 0 ? row.time[0] / whole : 0)}</strong>
        </li>
      ))}
      {more > 0 && <li>{plural(more, 'more line')}</li>}
    </ul>
  );
}
