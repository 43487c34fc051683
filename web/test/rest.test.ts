import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brief, duration, percent, shortName, visible } from '../src/format';
import { parse, print, type State } from '../src/state';
import { each, finish, inSlices } from '../src/slices';
import { hasTimes, overTime } from '../src/timeline';
import { profile } from './made';

test('time off the CPU is spread over what it lasts', () => {
  const made = profile([
    { stack: 'a', value: 7, time: 100_000 },
    { stack: 'a', value: 500e6, time: 150_000, offCpu: true },
    { stack: 'a', value: 10e9, time: 900_000, offCpu: true },
  ]);
  const bins = (samples: number[]) => [...finish(overTime(made, Int32Array.from(samples), 10))].map((ns) => Math.round(ns / 1e6));
  assert.deepEqual([...finish(overTime(made, Int32Array.of(0), 10))], [0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(bins([1]), [0, 50, 100, 100, 100, 100, 50, 0, 0, 0]);
  assert.deepEqual(bins([2]), [0, 0, 0, 0, 0, 0, 0, 0, 0, 100]);
});

test('a timeline is of samples with times of their own, not of one or two files of sums', () => {
  const at = (...times: number[]) => hasTimes(profile(times.map((time) => ({ stack: 'a', value: 7, time }))));
  assert.equal(at(), false);
  assert.equal(at(0, 0, 0), false);
  assert.equal(at(0, 0, 8_000_000, 8_000_000), false);
  assert.equal(at(0, 3, 8), true);
  assert.equal(at(0, 8), true);
});

test('a view is the same after it was in the address', () => {
  const initial: State = { view: 'graph', measure: 'cpu', groupBy: ['tenant'], filter: '', search: '', flame: false, inverted: false, focus: '', zoom: [], labelKey: '' };
  const states: State[] = [
    initial,
    {
      view: 'labels', measure: 'off', groupBy: ['a,b', 'c\\d'], filter: 'k=x\\,y&z', search: '/^a+$/', flame: true, inverted: true, focus: 'a::b<c>, d', zoom: [-2, 4, 0],
      range: [5, 99], compare: { key: 'ten,ant', value: '', against: 'b\\' }, labelKey: 'ü',
    },
    { ...initial, groupBy: [], compare: { key: 'k', value: 'v' } },
  ];
  for (const state of states) assert.deepEqual({ ...parse(`#${print(state, initial)}`, initial) }, { range: undefined, compare: undefined, ...state, ...(state.compare && { compare: { against: undefined, ...state.compare } }) });
  assert.equal(print(initial, initial), '');
  assert.deepEqual(parse('#zoom=x.1&range=9-5&view=no&measure=no', initial).zoom, [1]);
});

test('numbers for people', () => {
  assert.equal(duration(0), '0 s');
  assert.equal(duration(12_345_678), '12.3 ms');
  assert.equal(duration(86e9), '1 min 26 s');
  assert.equal(duration(119.7e9), '2 min 0 s');
  assert.equal(duration(3.66e12), '1 h 1 min');
  assert.equal(percent(0.1234), '12.3 %');
  assert.equal(percent(0.00001), '<0.01 %');
});

test('names without what C++ adds to them', () => {
  assert.equal(shortName('(anonymous namespace)::pay((anonymous namespace)::Shop&)'), 'pay');
  assert.equal(shortName('std::map<int, std::vector<char> >::find(int const&) const'), 'std::map<…>::find');
  assert.equal(shortName('core::ptr::drop_in_place<alloc::Vec<u8>>'), 'core::ptr::drop_in_place<…>');
  assert.equal(shortName('a::operator<(a const&)'), 'a::operator<(a const&)');
  for (const name of ['main', '[libc.so.6]', '', '(', '<x', 'a>b', '<unknown>::x']) assert.notEqual(shortName(name), undefined);
  assert.equal(shortName('[libc.so.6]'), '[libc.so.6]');
  assert.equal(shortName('<x'), '<x');
});

test('names from outside cannot hide or turn what they are', () => {
  assert.equal(visible('a\u202eb\u0000'), 'a‹U+202E›b‹U+0000›');
  assert.ok(visible('x'.repeat(5000)).length < 400);
  assert.equal(brief('/tmp/profiles/before.pb.gz', 14), '/tmp/profiles…');
  assert.equal(brief('before.pb.gz', 14), 'before.pb.gz');
  assert.notEqual(visible(''), '');
});

test('work in slices comes to the same, and lets others run', async () => {
  function* count() {
    let sum = 0;
    yield* each(200_000, (i) => (sum += i));
    return sum;
  }
  assert.equal(finish(count()), (200_000 * 199_999) / 2);
  let others = 0;
  const timer = setInterval(() => others++);
  assert.equal(await inSlices(count(), 0), (200_000 * 199_999) / 2);
  clearInterval(timer);
  assert.ok(others > 0);
});
