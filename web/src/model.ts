// From what is looked at to what is shown: each step is computed again only when what it is made of
// changes.
import { useMemo, useRef } from 'preact/hooks';
import { Colours } from './colour';
import type { Profile } from './data';
import { Dimensions } from './dimensions';
import { parse, type Term } from './filter';
import { matcher, search, type Found } from './search';
import { select, split, sum } from './select';
import type { State } from './state';
import { fromLeaves } from './perspective';
import { build, follow, type Tree } from './tree';

export interface Model {
  profile: Profile;
  dimensions: Dimensions;
  colours: Colours;
  /** Of the filter, as long as it can be read; else those before. */
  terms: readonly Term[];
  filterError?: string;
  /** Of the measure, whatever the filter and the range say. */
  all: Int32Array;
  chosen: Int32Array;
  time: number;
  tree: Tree;
  zoom: number;
  found?: Found;
  searchError?: string;
}

export function useModel(profile: Profile, state: State): Model {
  const dimensions = useMemo(() => new Dimensions(profile), [profile]);
  const colours = useMemo(() => new Colours(modulesByTime(profile)), [profile]);

  const readable = useRef<readonly Term[]>([]);
  const parsed = useMemo(() => parse(state.filter), [state.filter]);
  if ('terms' in parsed) readable.current = parsed.terms;
  const terms = readable.current;

  const all = useMemo(() => select(profile, dimensions, state.measure, [], undefined), [profile, state.measure]);
  const chosen = useMemo(
    () => select(profile, dimensions, state.measure, terms, state.range),
    [profile, state.measure, terms, state.range],
  );
  const time = useMemo(() => sum(profile, chosen), [profile, chosen]);

  const { compare } = state;
  const tree = useMemo(() => {
    const sides = compare ? split(dimensions, chosen, compare.key, compare.value, compare.against) : [chosen];
    // A side has one value of the key that sides are made of: as a group it would say nothing.
    const keys = state.groupBy.filter((key) => key !== compare?.key);
    const groups = keys.map((key) => dimensions.get(key));
    // Samples without any frame are part of the whole either way.
    return state.inverted ? build(profile, groups, sides, fromLeaves(profile), false) : build(profile, groups, sides);
  }, [profile, chosen, compare, state.groupBy, state.inverted]);
  const zoom = useMemo(() => follow(tree, state.zoom), [tree, state.zoom]);

  const matches = useMemo(() => matcher(state.search), [state.search]);
  const found = useMemo(
    () => (typeof matches === 'function' ? search(profile, tree, matches) : undefined),
    [profile, tree, matches],
  );
  return {
    profile, dimensions, colours, terms, all, chosen, time, tree, zoom, found,
    filterError: 'error' in parsed ? parsed.error : undefined,
    searchError: matches && typeof matches !== 'function' ? matches.error : undefined,
  };
}

function modulesByTime(profile: Profile): string[] {
  const { node, value } = profile.samples;
  const own = new Float64Array(profile.nodes.frame.length);
  node.forEach((n, i) => {
    if (n >= 0) own[n] += value[i];
  });
  const time = new Map<string, number>();
  profile.nodes.frame.forEach((frame, n) => {
    const { module, kind } = profile.frames[frame];
    if (kind === 0) time.set(module, (time.get(module) ?? 0) + own[n]);
  });
  return [...time].sort((a, b) => b[1] - a[1]).map(([module]) => module);
}
