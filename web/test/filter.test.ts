import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dimensions } from '../src/dimensions';
import { choiceOf, exclude, include, parse, print, type Term } from '../src/filter';
import { select } from '../src/select';
import { finish } from '../src/slices';
import { profile } from './made';

const made = profile([
  { stack: 'a', value: 1, labels: { tenant: 'acme', route: '/pay' } },
  { stack: 'a', value: 2, labels: { tenant: 'globex', route: '/cart' } },
  { stack: 'a', value: 4, labels: { tenant: 'x,y\\z' } },
  { stack: 'a', value: 8 },
]);
const dimensions = new Dimensions(made);

function terms(text: string): Term[] {
  const parsed = parse(text);
  assert.ok('terms' in parsed, text);
  return parsed.terms;
}

/** The values of the chosen samples, added: each sum is of other samples. */
function sumOf(text: string): number {
  return finish(select(made, dimensions, { measure: 'cpu', terms: terms(text) })).reduce((sum, i) => sum + made.samples.value[i], 0);
}

test('terms hold as the command has them hold', () => {
  assert.equal(sumOf(''), 15);
  assert.equal(sumOf('tenant=acme'), 1);
  assert.equal(sumOf('tenant!=acme'), 14);
  assert.equal(sumOf('tenant='), 8);
  assert.equal(sumOf('tenant!='), 7);
  assert.equal(sumOf('route~^/(pay|cart)$'), 3);
  assert.equal(sumOf('route!~pay'), 14);
  assert.equal(sumOf('tenant!=acme,route~/'), 2);
  assert.equal(sumOf('tenant=x\\,y\\\\z'), 4);
  assert.equal(sumOf('process=shop,tid=8'), 15);
  assert.equal(sumOf('nothing=here'), 0);
});

test('a label comes before what the profile knows under its name', () => {
  const mixed = profile([{ stack: 'a', value: 1, labels: { process: 'own' } }, { stack: 'a', value: 2 }]);
  const { values, of } = finish(new Dimensions(mixed).get('process'));
  assert.deepEqual([...of].map((id) => values[id]), ['own', 'shop']);
});

test('what is no filter is said to be none', () => {
  for (const text of ['tenant', '=acme', 'a=b,c', 'route~(', 'a=1,~x']) assert.ok('error' in parse(text), text);
});

test('a filter is printed as it is read', () => {
  for (const text of ['tenant=acme,route~^/pay', 'a!=b,c!~d', 'k=x\\,y\\\\z', 'k=']) assert.equal(print(terms(text)), text);
});

test('values are wanted and left out one by one', () => {
  const all = finish(dimensions.get('tenant')).values;
  let now = include([], 'tenant', 'acme', all);
  assert.equal(print(now), 'tenant=acme');
  now = include(now, 'tenant', 'x,y\\z', all);
  assert.deepEqual(choiceOf(now[0].value), ['acme', 'x,y\\z']);
  assert.equal(sumOf(print(now)), 5);
  now = include(now, 'tenant', 'acme', all);
  assert.equal(sumOf(print(now)), 4);
  now = exclude(now, 'tenant', 'x,y\\z');
  assert.equal(sumOf(print(now)), 11);
  now = exclude(now, 'tenant', 'x,y\\z');
  assert.equal(print(now), '');
});

test('what lacks the key is wanted together with values', () => {
  const all = finish(dimensions.get('tenant')).values;
  let now = include(include([], 'tenant', undefined, all), 'tenant', 'acme', all);
  assert.equal(sumOf(print(now)), 9);
  now = include(now, 'tenant', 'globex', all);  // it was left out: taken in again
  assert.equal(sumOf(print(now)), 11);
  now = exclude(exclude([], 'tenant', undefined), 'tenant', 'acme');
  assert.equal(sumOf(print(now)), 6);
  assert.equal(sumOf(print(exclude(now, 'tenant', undefined))), 14);
});

test('an empty value is not the same as none, and keys may have operators', () => {
  const odd = profile([
    { stack: 'a', value: 1, labels: { 'a=b,!~\\': '' } },
    { stack: 'a', value: 2, labels: { 'a=b,!~\\': 'x' } },
    { stack: 'a', value: 4 },
  ]);
  const of = new Dimensions(odd);
  const key = of.labelKeys[0];
  const all = finish(of.get(key)).values;
  const sum = (now: Term[]) => finish(select(odd, of, { measure: 'cpu', terms: terms(print(now)) })).reduce((n, i) => n + odd.samples.value[i], 0);
  assert.equal(sum(include([], key, '', all)), 1);
  assert.equal(sum(include(include([], key, '', all), key, 'x', all)), 3);
  assert.equal(sum(include(include([], key, '', all), key, undefined, all)), 5);
  assert.equal(sum(include([], key, undefined, all)), 4);
  assert.equal(sum(exclude([], key, '')), 6);
  assert.equal(print(terms(print(include([], key, 'x', all)))), 'a\\=b\\,\\!\\~\\\\=x');
});
