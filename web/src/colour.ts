// Colours of frames: a quiet hue for each module, warm for the kernel, grey for what has no name; blue
// to red where two sides differ.
import { Kind, type Frame } from './data';

export interface Palette {
  background: string;
  text: string;
  textOn: string;
  muted: string;
  match: string;
  matchText: string;
  hatch: string;
  dark: boolean;
}

export const light: Palette = {
  background: '#ffffff',
  text: '#1d2430',
  textOn: '#1d2430',
  muted: '#8a93a3',
  match: '#c026d3',
  matchText: '#ffffff',
  hatch: 'rgba(60, 66, 82, 0.28)',
  dark: false,
};

export const dark: Palette = {
  background: '#14171d',
  text: '#e3e7ee',
  textOn: '#eef1f6',
  muted: '#7b8494',
  match: '#d946ef',
  matchText: '#ffffff',
  hatch: 'rgba(235, 238, 245, 0.22)',
  dark: true,
};

// Far enough from the kernel's orange and the colour of a match.
const hues = [212, 168, 248, 192, 142, 228, 100, 268];

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

/** Modules in the order of their weight get the hues in order; so the first few differ for sure. */
export class Colours {
  private readonly hueOf = new Map<string, number>();

  constructor(modules: readonly string[]) {
    modules.forEach((module, i) => this.hueOf.set(module, hues[i % hues.length]));
  }

  frame(frame: Frame, palette: Palette): string {
    const hue = this.hueOf.get(frame.module) ?? hues[hash(frame.module) % hues.length];
    // Neighbours of one module are told apart by a shade.
    const shade = ((hash(frame.name) >>> 8) % 7) - 3;
    const tone = (h: number, s: number, onLight: number, onDark: number) =>
      `hsl(${h} ${s}% ${palette.dark ? onDark + shade * 0.9 : onLight + shade * 1.1}%)`;
    switch (frame.kind) {
      case Kind.kernel:
        return tone(28, palette.dark ? 46 : 82, 80, 34);
      case Kind.jit:
        return tone(330, palette.dark ? 30 : 60, 86, 36);
      case Kind.unknown:
      case Kind.notWhole:
        return tone(220, 8, 87, 28);
      default: {
        const paler = frame.inlined ? 5 : 0;
        return tone(hue, palette.dark ? 34 : 56, 80 + paler, 34 - paler);
      }
    }
  }

  group(value: string, missing: boolean, palette: Palette): string {
    if (missing) return palette.dark ? '#2b303a' : '#e4e7ec';
    const shade = hash(value) % 5;
    return `hsl(222 ${palette.dark ? 20 : 24}% ${palette.dark ? 30 + shade : 76 + shade}%)`;
  }

  root(palette: Palette): string {
    return palette.dark ? '#262b34' : '#eceff3';
  }

  /** Difference of shares, as a part of what stands out fully: red is more, blue is less. */
  difference(more: number, palette: Palette): string {
    const strength = Math.min(1, Math.sqrt(Math.abs(more)));
    if (strength < 0.06) return palette.dark ? '#2c313b' : '#eceef2';
    const hue = more > 0 ? 8 : 214;
    return palette.dark
      ? `hsl(${hue} ${20 + 40 * strength}% ${22 + 18 * strength}%)`
      : `hsl(${hue} ${50 + 25 * strength}% ${93 - 23 * strength}%)`;
  }
}
