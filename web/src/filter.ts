// Filters, as the command writes them: `tenant=acme,route~^/pay,step!=idle,route!~health`.
import type { Dimension, Dimensions } from './dimensions';

export type Operator = '=' | '!=' | '~' | '!~';

export interface Term {
  key: string;
  operator: Operator;
  /** With '=' and '!=': none is "no such key". */
  value: string;
}

export type Parsed = { terms: Term[] } | { error: string };

/** A ',' or '\' of a value is written '\,' and '\\'. */
export function parse(text: string): Parsed {
  const terms: Term[] = [];
  let at = 0;
  while (at < text.length) {
    const start = at;
    const found = /!=|!~|=|~/.exec(text.slice(at));
    const comma = text.indexOf(',', at);
    if (!found || (comma >= 0 && comma < at + found.index))
      return { error: `“${text.slice(start, comma < 0 ? undefined : comma)}”: want key=value, key!=value, key~regex or key!~regex` };
    const key = text.slice(at, at + found.index).trim();
    if (key === '') return { error: `nothing before “${found[0]}”: want a key` };
    at += found.index + found[0].length;
    let value = '';
    for (; at < text.length && text[at] !== ','; at++) {
      if (text[at] === '\\' && (text[at + 1] === ',' || text[at + 1] === '\\')) at++;
      value += text[at];
    }
    at++;  // the ','
    const term: Term = { key, operator: found[0] as Operator, value };
    const wrong = problemOf(term);
    if (wrong) return { error: wrong };
    terms.push(term);
  }
  return { terms };
}

export function print(terms: readonly Term[]): string {
  return terms.map((t) => t.key + t.operator + t.value.replace(/[\\,]/g, '\\$&')).join(',');
}

function isPattern(term: Term): boolean {
  return term.operator.endsWith('~');
}

function problemOf(term: Term): string | undefined {
  if (!isPattern(term)) return undefined;
  try {
    new RegExp(term.value, 'u');
  } catch {
    return `“${term.value}” is not a regular expression`;
  }
  return undefined;
}

/** Whether the term holds, for each value of the dimension; the last entry is for no value. */
export function holds(term: Term, dimension: Dimension): Uint8Array {
  const wanted = !term.operator.startsWith('!');
  const regex = isPattern(term) ? new RegExp(term.value, 'u') : undefined;
  const matches = (value: string) => (regex ? regex.test(value) : term.value !== '' && value === term.value);
  const result = new Uint8Array(dimension.values.length + 1);
  dimension.values.forEach((value, i) => (result[i] = matches(value) === wanted ? 1 : 0));
  result[dimension.values.length] = (!regex && term.value === '') === wanted ? 1 : 0;
  return result;
}

/** Clears `mask` where a term does not hold. */
export function applyTo(mask: Uint8Array, terms: readonly Term[], dimensions: Dimensions): void {
  for (const term of terms) {
    const dimension = dimensions.get(term.key);
    const holding = holds(term, dimension);
    const none = dimension.values.length;
    for (let i = 0; i < mask.length; i++) {
      const id = dimension.of[i];
      if (!holding[id < 0 ? none : id]) mask[i] = 0;
    }
  }
}

const special = /[.*+?^${}()|[\]\\/]/g;
export const escapeRegex = (text: string) => text.replace(special, '\\$&');

/** The values that terms on a key ask for, where they are ours (see include). */
export function included(terms: readonly Term[], key: string): string[] {
  for (const term of terms) {
    if (term.key !== key) continue;
    if (term.operator === '=') return [term.value];
    const choice = term.operator === '~' && choiceOf(term.value);
    if (choice) return choice;
  }
  return [];
}

export function excluded(terms: readonly Term[], key: string): string[] {
  return terms.filter((t) => t.key === key && t.operator === '!=').map((t) => t.value);
}

/** The values of a `^(a|b)$` that include wrote. */
export function choiceOf(pattern: string): string[] | undefined {
  const inner = /^\^\((.*)\)\$$/s.exec(pattern)?.[1];
  if (inner === undefined) return undefined;
  const values = inner.split(/(?<!\\)\|/).map((v) => v.replace(/\\(.)/gs, '$1'));
  return values.map(escapeRegex).join('|') === inner ? values : undefined;
}

/** Adds a value to those wanted of its key, or takes it away again. */
export function include(terms: readonly Term[], key: string, value: string): Term[] {
  const before = included(terms, key);
  const values = before.includes(value) ? before.filter((v) => v !== value) : [...before, value];
  const rest = terms.filter(
    (t) =>
      t.key !== key ||
      t.operator === '!~' ||
      (t.operator === '~' && !choiceOf(t.value)) ||
      (t.operator === '!=' && t.value !== value),
  );
  if (values.length === 0) return rest;
  if (values.length === 1) return [...rest, { key, operator: '=', value: values[0] }];
  return [...rest, { key, operator: '~', value: `^(${values.map(escapeRegex).join('|')})$` }];
}

/** Leaves a value out, or takes it in again. */
export function exclude(terms: readonly Term[], key: string, value: string): Term[] {
  if (excluded(terms, key).includes(value))
    return terms.filter((t) => !(t.key === key && t.operator === '!=' && t.value === value));
  const rest = included(terms, key).includes(value) ? include(terms, key, value) : [...terms];
  return [...rest, { key, operator: '!=', value }];
}
