import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linesOf, mostLines } from '../src/lines';
import { Dimensions } from '../src/dimensions';
import { nameOf } from '../src/draw';
import { callees, callers, fromLeaves, fromRoots, type Stacks } from '../src/perspective';
import { finish, type Work } from '../src/slices';
import { build, type Built } from '../src/tree';
import type { Profile } from '../src/data';
import { profile } from './made';

const made = profile([
  { stack: 'main:3;serve:10;render:57', value: 30, labels: { tenant: 'acme' } },
  { stack: 'main:3;serve:10;render:61;copy:5', value: 10, labels: { tenant: 'acme' } },
  { stack: 'main:3;serve:12;render:57', value: 7, labels: { tenant: 'globex' } },
  { stack: 'main:4;walk:20;walk:21;walk:22;copy:6', value: 5 },
  { stack: 'main', value: 2 },
]);
const all = Int32Array.of(0, 1, 2, 3, 4);
const tenant = finish(new Dimensions(made).get('tenant'));
const built = (stacks: (of: Profile) => Work<Stacks>, groups: (typeof tenant)[] = [], sides = [all]) =>
  finish(build(made, groups, sides, finish(stacks(made))));

/** "line time" of each line of the frame to which the names lead. */
function lines(of: Built, ...names: string[]): string[] {
  let at = 0;
  for (const name of names) {
    const parent = at;
    at = Array.from({ length: of.tree.size }, (_, i) => i).find((i) => of.tree.parent[i] === parent && nameOf(made, of.tree, i) === name)!;
    assert.ok(at > 0, `${name} of ${names}`);
  }
  return finish(linesOf(made, of, at)).rows.map(({ line, time }) => `${line} ${time.join('|')}`);
}

test('a function is one frame, whatever its lines', () => {
  const { tree } = built(fromRoots);
  const names = Array.from({ length: tree.size }, (_, i) => `${nameOf(made, tree, i)} ${tree.sides[0].total[i]}`);
  assert.deepEqual(names, ['all 54', 'main 54', 'serve 47', 'render 47', 'copy 10', 'walk 5', 'walk 5', 'walk 5', 'copy 5']);
});

test('lines of a frame have the time in it and below', () => {
  const of = built(fromRoots);
  assert.deepEqual(lines(of, 'main'), ['3 47', '4 5']);
  assert.deepEqual(lines(of, 'main', 'serve'), ['10 40', '12 7']);
  assert.deepEqual(lines(of, 'main', 'serve', 'render'), ['57 37', '61 10']);
  assert.deepEqual(lines(of, 'main', 'walk', 'walk'), ['21 5']);
  assert.deepEqual(finish(linesOf(made, of, 0)), { rows: [], more: 0 });
});

test('lines are those of the group and of the side', () => {
  assert.deepEqual(lines(built(fromRoots, [tenant]), 'tenant = globex', 'main', 'serve'), ['12 7']);
  const sides = [Int32Array.of(0, 1), Int32Array.of(2, 3, 4)];
  assert.deepEqual(lines(built(fromRoots, [], sides), 'main', 'serve', 'render'), ['57 30|7', '61 10|0']);
  assert.deepEqual(lines(built(fromLeaves, [tenant]), 'tenant = acme', 'copy', 'render'), ['61 10']);
});

test('inverted, and around a function, lines are those of the same calls', () => {
  const inverted = built(fromLeaves);
  assert.deepEqual(lines(inverted, 'copy'), ['5 10', '6 5']);
  assert.deepEqual(lines(inverted, 'copy', 'walk', 'walk'), ['21 5']);
  const above = built((of) => callers(of, 'render'));
  assert.deepEqual(lines(above, 'render'), ['57 37', '61 10']);
  assert.deepEqual(lines(above, 'render', 'serve', 'main'), ['3 47']);
  const below = built((of) => callees(of, 'walk'));
  assert.deepEqual(lines(below, 'walk'), ['20 5']);
  assert.deepEqual(lines(below, 'walk', 'walk', 'walk', 'copy'), ['6 5']);
  assert.deepEqual(lines(built((of) => callers(of, 'walk')), 'walk', 'main'), ['4 5']);
});

test('few lines are listed, the rest counted', () => {
  const many = profile(Array.from({ length: 30 }, (_, i) => ({ stack: `main:${i + 1}`, value: i + 1 })));
  const of = finish(build(many, [], [Int32Array.from({ length: 30 }, (_, i) => i)], finish(fromRoots(many))));
  const { rows, more } = finish(linesOf(many, of, 1));
  assert.deepEqual(rows.map(({ line }) => line), [30, 29, 28, 27, 26]);
  assert.equal(more, 30 - mostLines);
});
