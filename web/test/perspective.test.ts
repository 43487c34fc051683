import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dimensions } from '../src/dimensions';
import { nameOf } from '../src/draw';
import { callees, callers, fromLeaves, fromRoots, type Stacks } from '../src/perspective';
import { finish } from '../src/slices';
import { build } from '../src/tree';
import { profile } from './made';

const made = profile([
  { stack: 'main;serve;render;copy', value: 30, labels: { tenant: 'acme' } },
  { stack: 'main;serve;query;copy', value: 20 },
  { stack: 'main;idle', value: 5 },
  { stack: 'main;walk;walk;copy', value: 7 },
  { stack: 'main;walk;walk', value: 1 },
  { stack: '', value: 2 },
]);
const all = Int32Array.of(0, 1, 2, 3, 4, 5);

/** Depth, name and total of each frame. */
function lines(stacks: Stacks, partial?: boolean): string[] {
  const tree = finish(build(made, [], [all], stacks, partial)).tree;
  return Array.from({ length: tree.size }, (_, i) => `${'. '.repeat(tree.depth[i])}${nameOf(made, tree, i)} ${tree.sides[0].total[i]}`);
}

test('inverted, time is at the functions that spent it', () => {
  const shown = lines(finish(fromLeaves(made)), false);
  assert.equal(shown[0], 'all 65');
  assert.deepEqual(shown.slice(1, 12), [
    '. copy 57',
    '. . render 30', '. . . serve 30', '. . . . main 30',
    '. . query 20', '. . . serve 20', '. . . . main 20',
    '. . walk 7', '. . . walk 7', '. . . . main 7',
    '. idle 5',
  ]);
});

test('callers of a function have its time', () => {
  assert.deepEqual(lines(finish(callers(made, 'copy'))), [
    'all 57', '. copy 57',
    '. . render 30', '. . . serve 30', '. . . . main 30',
    '. . query 20', '. . . serve 20', '. . . . main 20',
    '. . walk 7', '. . . walk 7', '. . . . main 7',
  ]);
});

test('callees are below the outermost call', () => {
  assert.deepEqual(lines(finish(callees(made, 'walk'))), ['all 8', '. walk 8', '. . walk 8', '. . . copy 7']);
  assert.deepEqual(lines(finish(callers(made, 'walk'))), ['all 8', '. walk 8', '. . main 8']);
});

test('of a function that is not there, nothing is shown', () => {
  assert.deepEqual(lines(finish(callees(made, 'missing'))), ['all 0']);
  assert.deepEqual(lines(finish(callers(made, 'missing'))), ['all 0']);
});

test('time is the same from wherever it is looked at', () => {
  const dimension = finish(new Dimensions(made).get('tenant'));
  const sums = [finish(fromRoots(made)), finish(fromLeaves(made))].map((stacks) => {
    const tree = finish(build(made, [dimension], [all], stacks, false)).tree;
    return [tree.sides[0].total[0], tree.groups.length];
  });
  assert.deepEqual(sums[0], sums[1]);
});
