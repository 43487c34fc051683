// Filters, as the command writes them: `tenant=acme,route~^/pay,step!=idle,route!~health`.
import type { Dimension, Dimensions } from './dimensions';
import { Pattern } from './regex';
import { each, type Work } from './slices';

export type Operator = '=' | '!=' | '~' | '!~';

export interface Term {
  key: string;
  operator: Operator;
  /** With '=' and '!=': none is "no such key", as the command has it; an empty value is `~^()$`. */
  value: string;
}

export type Parsed = { terms: Term[] } | { error: string };

/** A ',' or '\' of a value is written '\,' and '\\'; so are, in a key, these and '=', '!' and '~'. */
export function parse(text: string): Parsed {
  const terms: Term[] = [];
  let at = 0;
  while (at < text.length) {
    const start = at;
    let key = '';
    for (; at < text.length && !'=!~,'.includes(text[at]); at++) {
      if (text[at] === '\\' && at + 1 < text.length && '=!~,\\'.includes(text[at + 1])) at++;
      key += text[at];
    }
    key = key.trim();
    const found = /^(?:!=|!~|=|~)/.exec(text.slice(at, at + 2));
    if (!found) {
      const comma = text.indexOf(',', at);
      return { error: `“${text.slice(start, comma < 0 ? undefined : comma)}”: write key=value, key!=value, key~regex or key!~regex` };
    }
    if (key === '') return { error: `missing key before “${found[0]}”` };
    at += found[0].length;
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
  return terms.map((t) => t.key.replace(/[\\,=!~]/g, '\\$&') + t.operator + t.value.replace(/[\\,]/g, '\\$&')).join(',');
}

function isPattern(term: Term): boolean {
  return term.operator.endsWith('~');
}

function problemOf(term: Term): string | undefined {
  if (!isPattern(term)) return undefined;
  try {
    new Pattern(term.value);
  } catch (error) {
    return `“${term.value}” is not a regular expression: ${(error as Error).message}`;
  }
  return undefined;
}

/** Whether the term holds, for each value of the dimension; the last entry is for no value. */
export function* holds(term: Term, dimension: Dimension): Work<Uint8Array> {
  const wanted = !term.operator.startsWith('!');
  const regex = isPattern(term) ? new Pattern(term.value) : undefined;
  const matches = (value: string) => (regex ? regex.test(value) : term.value !== '' && value === term.value);
  const result = new Uint8Array(dimension.values.length + 1);
  yield* each(dimension.values.length, (i) => (result[i] = matches(dimension.values[i]) === wanted ? 1 : 0));
  result[dimension.values.length] = (!regex && term.value === '') === wanted ? 1 : 0;
  return result;
}

/** Clears `mask` where a term does not hold. */
export function* applyTo(mask: Uint8Array, terms: readonly Term[], dimensions: Dimensions): Work<void> {
  for (const term of terms) {
    const dimension = yield* dimensions.get(term.key);
    const holding = yield* holds(term, dimension);
    const none = dimension.values.length;
    yield* each(mask.length, (i) => {
      const id = dimension.of[i];
      if (!holding[id < 0 ? none : id]) mask[i] = 0;
    });
  }
}

const special = /[.*+?^${}()|[\]\\/]/g;
export const escapeRegex = (text: string) => text.replace(special, '\\$&');

/** A value that is wanted or not; none: what has no such key. */
export type Choice = string | undefined;

/** The values that terms on a key ask for, where they are ours (see include). */
export function included(terms: readonly Term[], key: string): Choice[] {
  for (const term of terms) {
    if (term.key !== key) continue;
    if (term.operator === '=') return [term.value === '' ? undefined : term.value];
    const choice = term.operator === '~' && choiceOf(term.value);
    if (choice) return choice;
  }
  return [];
}

export function excluded(terms: readonly Term[], key: string): Choice[] {
  return terms.flatMap((t): Choice[] => {
    if (t.key !== key) return [];
    if (t.operator === '!=') return [t.value === '' ? undefined : t.value];
    return (t.operator === '!~' && choiceOf(t.value)) || [];
  });
}

/** The values of a `^(a|b)$` that include wrote. */
export function choiceOf(pattern: string): string[] | undefined {
  const inner = /^\^\((.*)\)\$$/s.exec(pattern)?.[1];
  if (inner === undefined) return undefined;
  const values = inner.split(/(?<!\\)\|/).map((v) => v.replace(/\\(.)/gs, '$1'));
  return values.map(escapeRegex).join('|') === inner ? values : undefined;
}

const pattern = (values: readonly string[]) => `^(${values.map(escapeRegex).join('|')})$`;

/** One term for some values; with negated, for all but them. */
function termOf(key: string, values: readonly Choice[], negated: boolean): Term {
  const [first] = values;
  const not = negated ? '!' : '';
  if (values.length === 1 && first !== '') return { key, operator: `${not}=` as Operator, value: first ?? '' };
  return { key, operator: `${not}~` as Operator, value: pattern(values as string[]) };
}

/** The terms but those that want or leave out single values of the key. */
function without(terms: readonly Term[], key: string, negated: boolean): Term[] {
  const [is, like] = negated ? ['!=', '!~'] : ['=', '~'];
  return terms.filter((t) => t.key !== key || (t.operator !== is && (t.operator !== like || !choiceOf(t.value))));
}

/** Adds a value to those wanted of its key, or takes it away again. What lacks the key, too, is had by leaving out the
    others: that is why they are told, where needsOthers says so. */
export function include(terms: readonly Term[], key: string, value: Choice, all: readonly string[]): Term[] {
  if (excluded(terms, key).includes(value)) return exclude(terms, key, value);
  const values = toggled(included(terms, key), value);
  const rest = without(terms, key, false);
  if (values.length === 0) return rest;
  if (values.length === 1 || !values.includes(undefined)) return [...rest, termOf(key, values, false)];
  const others = all.filter((v) => !values.includes(v));
  return others.length === 0 ? rest : [...without(rest, key, true), termOf(key, others, true)];
}

/** Whether include needs all values of the key. */
export function needsOthers(terms: readonly Term[], key: string, value: Choice): boolean {
  const values = toggled(included(terms, key), value);
  return !excluded(terms, key).includes(value) && values.length > 1 && values.includes(undefined);
}

function toggled(values: readonly Choice[], value: Choice): Choice[] {
  return values.includes(value) ? values.filter((v) => v !== value) : [...values, value];
}

/** Leaves a value out, or takes it in again. */
export function exclude(terms: readonly Term[], key: string, value: Choice): Term[] {
  const values = toggled(excluded(terms, key), value);
  const wanted = included(terms, key).filter((v) => v !== value);
  const rest = without(without(terms, key, true), key, false);
  if (wanted.length > 0) rest.push(termOf(key, wanted, false));
  // A pattern has text alone.
  const texts = values.filter((v) => v !== undefined);
  if (texts.length > 0) rest.push(termOf(key, texts, true));
  if (values.includes(undefined)) rest.push(termOf(key, [undefined], true));
  return rest;
}
