// What is looked at, and how the address of the page says it: everything that is not the profile.
import type { Compare, Measure, Range } from './select';

export type View = 'graph' | 'sandwich' | 'functions' | 'labels';

export interface State {
  view: View;
  measure: Measure;
  groupBy: string[];
  /** As typed; see filter.ts. */
  filter: string;
  search: string;
  /** Root at the bottom. */
  flame: boolean;
  /** The graph begins with the functions in which time was spent, and leads to their callers. */
  inverted: boolean;
  /** The function whose callers and callees are shown; empty: the one with the most time. */
  focus: string;
  /** The zoomed frame, as a path of Tree.what. */
  zoom: number[];
  range?: Range;
  compare?: Compare;
  /** The key whose values the table of labels shows. */
  labelKey: string;
}

export type Change = (change: Partial<State>) => void;

export function print(state: State, initial: State): string {
  const params = new URLSearchParams();
  const put = (name: string, value: string, usual: string) => {
    if (value !== usual) params.set(name, value);
  };
  put('view', state.view, initial.view);
  put('measure', state.measure, initial.measure);
  put('group', printKeys(state.groupBy), printKeys(initial.groupBy));
  put('filter', state.filter, '');
  put('search', state.search, '');
  put('flame', state.flame ? '1' : '0', initial.flame ? '1' : '0');
  put('inverted', state.inverted ? '1' : '0', '0');
  put('focus', state.focus, '');
  put('zoom', state.zoom.join('.'), '');
  put('range', state.range ? state.range.map(Math.round).join('-') : '', '');
  put('label', state.labelKey, initial.labelKey);
  put('compare', printCompare(state.compare), printCompare(initial.compare));
  return params.toString();
}

export function parse(fragment: string, initial: State): State {
  const params = new URLSearchParams(fragment.replace(/^#/, ''));
  const state: State = { ...initial };
  const view = params.get('view');
  if (view === 'graph' || view === 'sandwich' || view === 'functions' || view === 'labels') state.view = view;
  const measure = params.get('measure');
  if (measure === 'cpu' || measure === 'off') state.measure = measure;
  const group = params.get('group');
  if (group !== null) state.groupBy = parseKeys(group);
  state.filter = params.get('filter') ?? '';
  state.search = params.get('search') ?? '';
  const flame = params.get('flame');
  if (flame !== null) state.flame = flame === '1';
  state.inverted = params.get('inverted') === '1';
  state.focus = params.get('focus') ?? '';
  state.zoom = (params.get('zoom') ?? '').split('.').filter(Boolean).map(Number).filter(Number.isInteger);
  const range = /^(\d+)-(\d+)$/.exec(params.get('range') ?? '');
  state.range = range && +range[1] < +range[2] ? [+range[1], +range[2]] : undefined;
  state.labelKey = params.get('label') ?? initial.labelKey;
  const compare = params.get('compare');
  state.compare = initial.compare;
  if (compare !== null) {
    const [key, value, against] = parseKeys(compare);
    state.compare = value !== undefined ? { key, value, against } : undefined;
  }
  return state;
}

function printCompare(compare: Compare | undefined): string {
  if (!compare) return '';
  const { key, value, against } = compare;
  return printKeys(against === undefined ? [key, value] : [key, value, against]);
}

/** Texts with ',' between them. */
function printKeys(keys: readonly string[]): string {
  return keys.map((k) => k.replace(/[\\,]/g, '\\$&')).join(',');
}

function parseKeys(text: string): string[] {
  return text === '' ? [] : text.split(/(?<!\\),/).map((k) => k.replace(/\\(.)/gs, '$1'));
}
