// From what is looked at to what is shown: the parts that several views have in common.
import { useMemo, useRef } from 'preact/hooks';
import type { Client } from './client';
import { Colours } from './colour';
import type { Queries, Overview } from './engine';
import { parse, type Term } from './filter';
import { matcher } from './search';
import type { Scope } from './select';
import type { State } from './state';
import { useQuery, type Result } from './ui/query';

export interface Model {
  client: Client;
  profile: Overview;
  colours: Colours;
  /** Of the filter, as long as it can be read; else those before. */
  terms: readonly Term[];
  filterError?: string;
  scope: Scope;
  totals?: Queries['totals']['is'];
  /** The last that is there; it may be of a view before. */
  graph?: Result<'graph'>;
  searchError?: string;
  problem?: string;
}

export function useModel(client: Client, state: State): Model {
  const profile = client.overview;
  const colours = useMemo(() => new Colours(profile.modules), [profile]);

  const readable = useRef<readonly Term[]>([]);
  const parsed = useMemo(() => parse(state.filter), [state.filter]);
  if ('terms' in parsed) readable.current = parsed.terms;
  const terms = readable.current;

  const { measure, range, groupBy, compare, zoom, search } = state;
  const scope = useMemo(() => ({ measure, terms, range }), [measure, terms, range]);
  const inverted = state.inverted && state.view === 'graph';
  const graph = useQuery(client, 'graph', { ...scope, groupBy, compare, inverted, zoom, search });
  const totals = useQuery(client, 'totals', scope);
  const matches = useMemo(() => matcher(search), [search]);
  return {
    client, profile, colours, terms, scope, totals: totals.shown?.is, graph: graph.shown,
    problem: graph.problem ?? totals.problem,
    filterError: 'error' in parsed ? parsed.error : undefined,
    searchError: matches && typeof matches !== 'function' ? matches.error : undefined,
  };
}
