import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Client } from '../client';
import type { Overview } from '../engine';
import { exclude, include, needsOthers, print as printFilter, type Choice, type Term } from '../filter';
import { visible } from '../format';
import { useModel } from '../model';
import { parse, print, type Change, type State } from '../state';
import { CompareBar } from './compare';
import { Facets } from './facets';
import { FilterBar } from './filter';
import { Functions } from './functions';
import { Graph } from './graph';
import { GroupBy } from './group';
import { Header } from './header';
import { Help } from './help';
import { Empty } from './empty';
import { Labels } from './labels';
import { Notice } from './notice';
import { Sandwich } from './sandwich';
import { SearchBox } from './search';
import { Tabs } from './tabs';
import { useTheme } from './theme';
import { Timeline } from './timeline';

function initialState(profile: Overview): State {
  return {
    view: 'graph',
    measure: profile.measures[0] ?? 'cpu',
    groupBy: profile.groupBy,
    filter: '',
    search: '',
    flame: false,
    inverted: false,
    focus: '',
    zoom: [],
    labelKey: '',
    ...(profile.compare.length === 3 && {
      compare: { key: profile.compare[0], value: profile.compare[1], against: profile.compare[2] },
    }),
  };
}

function useFragment(initial: State): [State, Change] {
  const [state, setState] = useState(() => parse(location.hash, initial));
  const shown = useRef('');
  useEffect(() => {
    const fragment = print(state, initial);
    shown.current = fragment;
    try {
      history.replaceState(null, '', `#${fragment}`);
    } catch {
      // Some places that show a file do not let it have an address; then it cannot be shared.
    }
  }, [state]);
  useEffect(() => {
    const changed = () => {
      if (location.hash.slice(1) !== shown.current) setState(parse(location.hash, initial));
    };
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  const change = useCallback((part: Partial<State>) => setState((before) => ({ ...before, ...part })), []);
  return [state, change];
}

export function App({ client }: { client: Client }) {
  const profile = client.overview;
  const initial = useMemo(() => initialState(profile), [profile]);
  const [state, change] = useFragment(initial);
  const model = useModel(client, state);
  const [busy, setBusy] = useState(true);
  const [drawer, setDrawer] = useState(false);
  const [theme, toggleTheme] = useTheme();
  const [help, setHelp] = useState(false);
  const searchBox = useRef<HTMLInputElement>(null);

  useLayoutEffect(() => client.watch(setBusy), [client]);
  useEffect(() => {
    document.title = profile.title ? `${profile.title} · profile` : 'Profile';
  }, [profile]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.matches('input, select, textarea');
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === '/') searchBox.current?.focus();
      else if (event.key === '?') setHelp(true);
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);

  const pick = useCallback(
    (key: string, value: Choice, out: boolean) => {
      const { terms } = model;
      const set = (to: readonly Term[]) => change({ filter: printFilter(to) });
      if (out) set(exclude(terms, key, value));
      else if (!needsOthers(terms, key, value)) set(include(terms, key, value, []));
      else void client.query('names', { key }).then((all) => set(include(terms, key, value, all)));
    },
    [client, model.terms],
  );
  const nothing = !profile.hasSamples || model.totals?.chosen.samples === 0;
  return (
    <div class="app" aria-busy={busy}>
      <Header profile={profile} model={model} state={state} change={change} theme={theme}
        toggleTheme={toggleTheme} showHelp={() => setHelp(true)} />
      <Notice profile={profile} />
      <section class="toolbar" aria-label="What is shown">
        <GroupBy keys={profile.keys} chosen={state.groupBy} change={change} />
        <FilterBar state={state} model={model} change={change} />
        <SearchBox state={state} model={model} change={change} input={searchBox} />
      </section>
      {profile.hasTimes && <Timeline model={model} range={state.range} change={change} />}
      <div class="body">
        <Facets model={model} pick={pick} open={drawer} close={() => setDrawer(false)} />
        <main class="content">
          <Tabs state={state} change={change} model={model} showValues={() => setDrawer(true)} />
          {state.compare && state.view !== 'sandwich' && <CompareBar state={state} model={model} compare={state.compare} change={change} />}
          {model.problem !== undefined ? (
            <div class="empty" role="alert"><h2>This view could not be computed</h2><p>{visible(model.problem)}</p></div>
          ) : nothing ? (
            <Empty profile={profile} state={state} change={change} />
          ) : state.view === 'graph' ? (
            model.graph && <Graph model={model} graph={model.graph} state={state} change={change} theme={theme} />
          ) : state.view === 'sandwich' ? (
            <Sandwich model={model} state={state} change={change} theme={theme} />
          ) : state.view === 'functions' ? (
            <Functions model={model} state={state} change={change} />
          ) : (
            <Labels model={model} state={state} change={change} pick={pick} />
          )}
        </main>
      </div>
      {help && <Help close={() => setHelp(false)} />}
    </div>
  );
}
