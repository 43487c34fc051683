import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Profile } from '../data';
import { exclude, include, print as printFilter, type Choice } from '../filter';
import { useModel } from '../model';
import { parse, print, type State } from '../state';
import { hasTimes } from '../timeline';
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

export type Change = (change: Partial<State>) => void;

function initialState(profile: Profile): State {
  const measured = profile.samples.offCpu;
  return {
    view: 'graph',
    measure: measured.includes(0) || measured.length === 0 ? 'cpu' : 'off',
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

export function App({ profile }: { profile: Profile }) {
  const initial = useMemo(() => initialState(profile), [profile]);
  const [state, change] = useFragment(initial);
  const model = useModel(profile, state);
  const [theme, toggleTheme] = useTheme();
  const [help, setHelp] = useState(false);
  const searchBox = useRef<HTMLInputElement>(null);

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
      const { terms, dimensions } = model;
      change({ filter: printFilter(out ? exclude(terms, key, value) : include(terms, key, value, dimensions.get(key).values)) });
    },
    [model.terms],
  );
  const nothing = profile.samples.count === 0 || model.chosen.length === 0;
  return (
    <div class="app">
      <Header profile={profile} model={model} state={state} change={change} theme={theme}
        toggleTheme={toggleTheme} showHelp={() => setHelp(true)} />
      <Notice profile={profile} />
      <section class="toolbar" aria-label="What is shown">
        <GroupBy keys={model.dimensions.keys} chosen={state.groupBy} change={change} />
        <FilterBar state={state} model={model} change={change} />
        <SearchBox state={state} model={model} change={change} input={searchBox} />
      </section>
      {hasTimes(profile) && <Timeline model={model} range={state.range} change={change} />}
      <div class="body">
        <Facets model={model} state={state} pick={pick} />
        <main class="content">
          <Tabs state={state} change={change} model={model} />
          {state.compare && state.view !== 'sandwich' && <CompareBar state={state} model={model} compare={state.compare} change={change} />}
          {nothing ? (
            <Empty profile={profile} state={state} change={change} />
          ) : state.view === 'graph' ? (
            <Graph model={model} state={state} change={change} theme={theme} />
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
