import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pattern } from '../src/regex';

const patterns = [
  'a', '^a', 'a$', '^a$', '', '^$', 'a*', 'a+b', 'a?b', '(a|b)+c', '^(a|b|ab)$', 'a{2}', '^a{2,3}$', 'a{2,}', '^(?:ab){0,2}$', '[abc]', '[^abc]',
  '[a-c]+$', '[\\]a-]', '.', 'a.b', '\\.', '\\d+', '\\w\\W\\w', '\\s', '\\bword\\b', '\\Bord', '^(acme|x\\/y)$', '(a*)*b', '(a|a)*b', 'é+', '[α-ω]',
  '😀.', '\\x61', '\\t', 'a|^b|c$', '()', 'a*?b', '(?<name>a)b', '{', 'a{,2}', '^a{0}$', '[.]', '[^\\d]',
];
const texts = ['', 'a', 'b', 'ab', 'aab', 'aaa', 'abab', 'acme', 'x/y', 'abc', 'a\nb', 'a.b', ' ', 'a b', 'word', 'a word.', 'sword', 'éé', 'βα', '😀😀', '-', ']', '17', '\t',
  '{', 'a{,2}', 'aaaaaaaaaaaaaaac'];

test('what RegExp takes too means the same', () => {
  for (const pattern of patterns) {
    const native = new RegExp(pattern.replace(/^\{$|\{,/, '\\$&').replace('{,2}', '{,2\\}'), 'u');
    const ours = new Pattern(pattern);
    for (const text of texts) assert.equal(ours.test(text), native.test(text), `/${pattern}/ on ${JSON.stringify(text)}`);
  }
});

test('in any case, when that is asked for', () => {
  const pattern = new Pattern('shop::[A-F]é', { ignoreCase: true });
  assert.ok(pattern.test('Shop::bÉ') && pattern.test('SHOP::Bé') && !pattern.test('shop::gé'));
  assert.ok(new Pattern('(?i)ab').test('AB'));
});

test('what is not known is said', () => {
  for (const text of ['(', ')', 'a)', '[', '[b-a]', '*', 'a**', '^*', '\\', '(?=a)', '(?<!a)b', '(a)\\1', 'a{3,2}', 'a{1001}', '\\pL', '('.repeat(500),
    '((a{1000}){1000}){1000}'])
    assert.throws(() => new Pattern(text), Error, text);
});

test('the time is proportional to the text, whatever the pattern', () => {
  const text = 'a'.repeat(200_000);  // by RegExp: hours
  for (const pattern of ['(a*)*b', '(a|a)*b', '^(a+)+$b', '(.*)*x', 'a*a*a*a*b', '(a|b|ab)*c', '(x+x+)+y'])
    assert.equal(new Pattern(pattern).test(text), false, pattern);
});

test('an automaton with very many states stays small', () => {
  const bits = Array.from({ length: 20_000 }, (_, i) => 'ab'[((i * 2654435761) >>> 13) & 1]).join('');
  assert.equal(new Pattern('a[ab]{14}c').test(bits), false);
});
