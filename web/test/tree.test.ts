import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Profile } from '../src/data';
import { Dimensions } from '../src/dimensions';
import { nameOf } from '../src/draw';
import { move } from '../src/navigate';
import { fromRoots } from '../src/perspective';
import { matcher, search } from '../src/search';
import { split, sum } from '../src/select';
import { finish } from '../src/slices';
import { functions, values } from '../src/tables';
import { build, follow, forDrawing, isRest, pathOf, type Tree } from '../src/tree';
import { profile } from './made';

const made = profile([
  { stack: 'main;serve;render', value: 30, labels: { tenant: 'acme' } },
  { stack: 'main;serve;render;serve', value: 10, labels: { tenant: 'acme' } },
  { stack: 'main;serve;query', value: 20, labels: { tenant: 'globex' } },
  { stack: 'main;idle', value: 5 },
  { stack: '', value: 1, labels: { tenant: 'acme' } },
]);
const dimensions = new Dimensions(made);
const tenant = finish(dimensions.get('tenant'));
const built = (profile: Profile, ...of: [Parameters<typeof build>[1], Parameters<typeof build>[2]]) =>
  finish(build(profile, ...of, finish(fromRoots(profile)))).tree;
const all = Int32Array.of(0, 1, 2, 3, 4);

/** A line for each frame: depth, name, total and self of each side, where it begins. */
function lines(of: Profile, tree: Tree): string[] {
  return Array.from({ length: tree.size }, (_, i) =>
    [
      `${'. '.repeat(tree.depth[i])}${nameOf(of, tree, i)}`,
      ...tree.sides.map((s) => `${s.total[i]}/${s.self[i]} @${s.x[i]}`),
    ].join(' '),
  );
}

test('a tree has the sums of its samples, the heaviest first', () => {
  assert.deepEqual(lines(made, built(made, [], [all])), [
    'all 66/1 @0',
    '. main 65/0 @0',
    '. . serve 60/0 @0',
    '. . . render 40/30 @0',
    '. . . . serve 10/10 @0',
    '. . . query 20/20 @40',
    '. . idle 5/5 @60',
  ]);
});

test('values of labels become root frames', () => {
  assert.deepEqual(lines(made, built(made, [tenant], [all])), [
    'all 66/0 @0',
    '. tenant = acme 41/1 @0',
    '. . main 40/0 @0',
    '. . . serve 40/0 @0',
    '. . . . render 40/30 @0',
    '. . . . . serve 10/10 @0',
    '. tenant = globex 20/0 @41',
    '. . main 20/0 @41',
    '. . . serve 20/0 @41',
    '. . . . query 20/20 @41',
    '. tenant = (none) 5/0 @61',
    '. . main 5/0 @61',
    '. . . idle 5/5 @61',
  ]);
  const both = built(made, [finish(dimensions.get('process')), tenant], [all]);
  assert.equal(nameOf(made, both, 1), 'process = shop');
  assert.equal(nameOf(made, both, 2), 'tenant = acme');
  assert.equal(both.sides[0].total[1], 66);
});

test('two sides share one tree', () => {
  const tree = built(made, [], finish(split(dimensions, all, { key: 'tenant', value: 'acme' })));
  assert.deepEqual(lines(made, tree), [
    'all 41/1 @0 25/0 @0',
    '. main 40/0 @0 25/0 @0',
    '. . serve 40/0 @0 20/0 @0',
    '. . . render 40/30 @0 0/0 @0',
    '. . . . serve 10/10 @0 0/0 @0',
    '. . . query 0/0 @40 20/20 @0',
    '. . idle 0/0 @40 5/5 @20',
  ]);
});

test('paths lead back to their frame, as far as it is there', () => {
  const tree = built(made, [tenant], [all]);
  const path = (i: number) => pathOf(tree, i).slice(1).map((at) => tree.what[at]);
  for (let i = 0; i < tree.size; i++) assert.equal(follow(tree, path(i)), i);
  assert.equal(follow(tree, [...path(1), 12345]), 1);
});

test('a function counts once however often it is on a stack', () => {
  const rows = finish(functions(made, built(made, [], [all])));
  const row = (name: string) => rows.find((r) => r.name === name)!;
  assert.deepEqual([row('serve').total, row('serve').self], [[60], [10]]);
  assert.deepEqual([row('main').total, row('main').self], [[65], [0]]);
  assert.deepEqual([row('render').total, row('render').self], [[40], [30]]);
});

test('a search counts nested matches once', () => {
  const tree = built(made, [], [all]);
  const found = (text: string) => {
    const matches = matcher(text);
    assert.ok(typeof matches === 'function');
    const { frames, time } = finish(search(made, tree, matches));
    return [frames, ...time];
  };
  assert.deepEqual(found('SERVE'), [2, 60]);
  assert.deepEqual(found('/^(render|query)$/'), [2, 60]);
  assert.deepEqual(found('nowhere'), [0, 0]);
  assert.ok(typeof matcher('/(/') === 'object');
});

test('a row that is the sum of several samples counts as many', () => {
  const summed = profile([
    { stack: 'main;serve', value: 30, labels: { tenant: 'acme' }, count: 3 },
    { stack: 'main;idle', value: 5 },
  ]);
  const rows = Int32Array.of(0, 1);
  assert.deepEqual(finish(sum(summed, rows)), { time: 35, samples: 4 });
  assert.deepEqual([...built(summed, [], [rows]).sides[0].count], [4, 4, 3, 1]);
  assert.deepEqual(
    finish(values(summed, finish(new Dimensions(summed).get('tenant')), rows)).map((row) => row.samples),
    [3, 1],
  );
});

test('values of a key, with those that lack it', () => {
  assert.deepEqual(finish(values(made, tenant, all)), [
    { value: 'acme', missing: false, choice: 'acme', time: 41, samples: 3 },
    { value: 'globex', missing: false, choice: 'globex', time: 20, samples: 1 },
    { value: '(none)', missing: true, choice: undefined, time: 5, samples: 1 },
  ]);
});

test('a value that reads like none is another one', () => {
  const made = profile([
    { stack: 'main', value: 4, labels: { tenant: '(none)' } },
    { stack: 'main', value: 3, labels: { tenant: '"(none)"' } },
    { stack: 'main', value: 2, labels: { tenant: '"(none)' } },
    { stack: 'main', value: 1 },
  ]);
  const tenant = finish(new Dimensions(made).get('tenant'));
  const rows = Int32Array.of(0, 1, 2, 3);
  assert.deepEqual(finish(values(made, tenant, rows)).map((row) => [row.value, row.missing, row.choice]), [
    ['"(none)"', false, '(none)'],
    ['""(none)""', false, '"(none)"'],
    ['"(none)', false, '"(none)'],
    ['(none)', true, undefined],
  ]);
  assert.deepEqual(built(made, [tenant], [rows]).groups.map((group) => group.value).sort(),
    ['""(none)""', '"(none)', '"(none)"', '(none)']);
});

test('moves stay in the tree and step over what is not seen', () => {
  const tree = built(made, [], [all]);
  const seen = () => true;
  assert.equal(move(tree, 0, 'parent', seen), 0);
  assert.equal(move(tree, 0, 'child', seen), 1);
  assert.equal(move(tree, 3, 'next', seen), 5);
  assert.equal(move(tree, 5, 'next', seen), 5);
  assert.equal(move(tree, 5, 'previous', seen), 3);
  assert.equal(move(tree, 2, 'child', (i) => i !== 3), 5);
  assert.equal(move(tree, 4, 'child', seen), 4);
});

test('of values of a key, those with the most time get a group each', () => {
  const many = profile(Array.from({ length: 1100 }, (_, i) => ({ stack: 'main', value: i < 150 ? 1 : 10, labels: { id: `${i}` } })));
  const every = Int32Array.from({ length: 1100 }, (_, i) => i);
  const tree = built(many, [finish(new Dimensions(many).get('id'))], [every]);
  assert.equal(tree.sides[0].total[0], 150 + 9500);
  assert.ok(tree.groups.length <= 1101);
  const others = tree.groups.find((group) => group.value.endsWith(' more values)'));
  assert.equal(others, undefined, 'values with as much time as the least of them stay');
  const more = profile(Array.from({ length: 1100 }, (_, i) => ({ stack: 'main', value: 1 + i, labels: { id: `${i}` } })));
  const folded = built(more, [finish(new Dimensions(more).get('id'))], [every]);
  assert.equal(folded.groups.length, 1001);
  const at = Array.from({ length: folded.size }, (_, i) => i).find((i) => nameOf(more, folded, i) === 'id = (100 more values)')!;
  assert.equal(folded.sides[0].total[at], (100 * 101) / 2);
});

test('what is drawn is bounded, and has all of the time', () => {
  const stacks = Array.from({ length: 3000 }, (_, i) => ({ stack: `main;f${i % 50};g${i}`, value: i === 2999 ? 1e9 : 1 }));
  const many = profile(stacks);
  const whole = built(many, [], [Int32Array.from(stacks.keys())]);
  const { tree, from } = finish(forDrawing(whole, 0, 1000));
  assert.ok(tree.size < 20);
  const names = Array.from({ length: tree.size }, (_, i) => (isRest(tree, i) ? 'rest' : nameOf(many, tree, i)));
  assert.deepEqual(names, ['all', 'main', 'f49', 'g2999', 'rest', 'rest']);
  assert.deepEqual([...tree.sides[0].total], [1e9 + 2999, 1e9 + 2999, 1e9 + 59, 1e9, 59, 49 * 60]);
  assert.deepEqual([...from].map((i) => (i < 0 ? i : nameOf(many, whole, i))), ['all', 'main', 'f49', 'g2999', -1, -1]);
  for (let i = 1; i < tree.size; i++) {
    const { x, total } = tree.sides[0];
    assert.ok(x[i] >= x[tree.parent[i]] && x[i] + total[i] <= x[tree.parent[i]] + total[tree.parent[i]], `${i} is within its parent`);
  }
  assert.equal(finish(forDrawing(whole, 0)).tree, whole);
  // Zoomed, what was too narrow is there, and the way to it.
  const small = Array.from({ length: whole.size }, (_, i) => i).find((i) => nameOf(many, whole, i) === 'f7')!;
  const zoomed = finish(forDrawing(whole, small, 1000)).tree;
  const path = pathOf(whole, small).slice(1).map((i) => whole.what[i]);
  const there = follow(zoomed, path);
  assert.equal(nameOf(many, zoomed, there), 'f7');
  assert.equal(zoomed.end[there] - there, 61);
  assert.deepEqual([zoomed.sides[0].total[there], zoomed.sides[0].x[there]], [60, whole.sides[0].x[small]]);
});
