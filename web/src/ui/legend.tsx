import { useMemo } from 'preact/hooks';
import { Kind, type Frame } from '../data';
import { baseName, visible } from '../format';
import type { Overview } from '../engine';
import type { Colours, Palette } from '../colour';
import type { Tree } from '../tree';

interface Props {
  profile: Overview;
  tree: Tree;
  colours: Colours;
  palette: Palette;
  comparing: boolean;
}

/** Which colour is what: of the frames that there are. */
export function Legend({ profile, tree, colours, palette, comparing }: Props) {
  const entries = useMemo(() => {
    const own = new Float64Array(profile.frames.length);
    let inlined = false;
    for (let i = 1; i < tree.size; i++) {
      const what = tree.what[i];
      if (what < 0) continue;
      for (const side of tree.sides) own[what] += side.self[i] + 1e-9;
      inlined ||= profile.frames[what].inlined;
    }
    const time = new Map<string, { frame: Frame; time: number }>();
    profile.frames.forEach((frame, i) => {
      if (own[i] === 0) return;
      const name = nameFor(frame);
      const entry = time.get(name) ?? { frame: { ...frame, name: '', inlined: false }, time: 0 };
      entry.time += own[i];
      time.set(name, entry);
    });
    const found = [...time].sort((a, b) => b[1].time - a[1].time);
    return { found: found.slice(0, 7), inlined };
  }, [profile, tree]);
  return (
    <ul class="legend" aria-label="Colours">
      {!comparing && entries.found.map(([name, { frame }]) => (
        <li>
          <i class={frame.kind === Kind.notWhole ? 'hatched' : ''} style={{ background: colours.frame(frame, palette) }} />
          <bdi title={visible(frame.module)}>{visible(name, 40)}</bdi>
        </li>
      ))}
      {entries.inlined && <li><i class="dashed" /> <em>inlined</em></li>}
    </ul>
  );
}

function nameFor(frame: Frame): string {
  switch (frame.kind) {
    case Kind.kernel:
      return 'kernel';
    case Kind.jit:
      return 'JIT';
    case Kind.unknown:
      return 'no symbol';
    case Kind.notWhole:
      return 'stack not whole';
    default:
      return baseName(frame.module) || 'no module';
  }
}
