// Numbers and names for people.

export function duration(ns: number): string {
  const of = (value: number, unit: string) =>
    `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
  if (ns === 0) return '0 s';
  if (ns < 1e3) return of(ns, 'ns');
  if (ns < 1e6) return of(ns / 1e3, 'µs');
  if (ns < 1e9) return of(ns / 1e6, 'ms');
  if (ns < 6e10) return of(ns / 1e9, 's');
  const seconds = Math.round(ns / 1e9);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

export function percent(share: number): string {
  const value = share * 100;
  if (value === 0) return '0 %';
  if (value < 0.01) return '<0.01 %';
  return `${value.toFixed(value < 1 ? 2 : 1)} %`;
}

/** A difference of shares, in points. */
export function points(difference: number): string {
  const value = difference * 100;
  const digits = Math.abs(value).toFixed(1);
  return digits === '0.0' ? '±0' : `${value > 0 ? '+' : '−'}${digits}`;
}

export function count(n: number): string {
  return n.toLocaleString('en-GB');
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// Characters that are not seen, or that turn the text around them: shown as what they are.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A name from outside, fit to be looked at: at most `most` characters, nothing invisible. */
export function visible(text: string, most = 300): string {
  const cut = text.length > most ? `${text.slice(0, most)}… (${count(text.length)} characters)` : text;
  const shown = cut.replace(unseen, (c) => `‹U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
  return shown === '' ? '“”' : shown;
}

/** The same in little room: its beginning. */
export function brief(text: string, most: number): string {
  return visible(text.length > most ? `${text.slice(0, most - 1)}…` : text, most);
}

/** A function's name without what C++ adds to it: parameters, arguments of templates, unnamed namespaces. */
export function shortName(name: string): string {
  const plain = name.replaceAll('(anonymous namespace)::', '').replaceAll('{anonymous}::', '');
  if (plain.includes('operator')) return plain;  // '<' and '(' may be its name
  let short = '';
  let depth = 0;
  for (const c of plain) {
    if (c === '>' && depth > 0 && --depth === 0) short += '<…>';
    else if (c === '<') depth++;
    else if (depth > 0) continue;
    else if (c === '(' && short !== '') break;
    else short += c;
  }
  return depth > 0 || short === '' ? plain : short;
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
