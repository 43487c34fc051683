// Regular expressions whose time is proportional to the text: those of links and of people who type
// must not stop the page, as RegExp may. What can be written is the larger part of what the command
// takes (RE2): no look-around, no back-references.

type Test = (code: number) => boolean;
type Assertion = 'start' | 'end' | 'word' | 'inside';

type Node =
  | { is: 'one'; test: Test }
  | { is: 'assert'; what: Assertion }
  | { is: 'all'; of: Node[] }
  | { is: 'any'; of: Node[] }
  | { is: 'repeat'; of: Node; least: number; most: number };

type Step =
  | { is: 'one'; test: Test; next: number }
  | { is: 'assert'; what: Assertion; next: number }
  | { is: 'split'; next: number[] }
  | { is: 'match' };

const mostSteps = 20_000;
const mostRepeats = 1000;
const mostNested = 100;
const mostKept = 2000;  // states of the automaton; then it begins anew

const between = (low: number, high: number): Test => (c) => c >= low && c <= high;
const not = (test: Test): Test => (c) => !test(c);
const anyOf = (tests: Test[]): Test => (c) => tests.some((test) => test(c));
const digit = between(48, 57);
const word = anyOf([digit, between(65, 90), between(97, 122), (c) => c === 95]);
const space: Test = (c) => c === 32 || (c >= 9 && c <= 13);
const classes: Record<string, Test> = { d: digit, D: not(digit), w: word, W: not(word), s: space, S: not(space) };
const controls: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, a: 7 };

class Parser {
  private at = 0;
  private depth = 0;
  private readonly text: string[];

  constructor(pattern: string, private ignoreCase: boolean) {
    this.text = [...pattern];
    while (this.take('(?i)')) this.ignoreCase = true;
  }

  parse(): Node {
    const node = this.choice();
    if (this.at < this.text.length) throw new Error('a “)” without its “(”');
    return node;
  }

  private take(wanted: string): boolean {
    if (![...wanted].every((c, i) => this.text[this.at + i] === c)) return false;
    this.at += wanted.length;
    return true;
  }

  private choice(): Node {
    if (++this.depth > mostNested) throw new Error('it is nested too deeply');
    const of = [this.sequence()];
    while (this.take('|')) of.push(this.sequence());
    this.depth--;
    return of.length === 1 ? of[0] : { is: 'any', of };
  }

  private sequence(): Node {
    const of: Node[] = [];
    while (this.at < this.text.length && this.text[this.at] !== '|' && this.text[this.at] !== ')') of.push(this.repeated());
    return { is: 'all', of };
  }

  private repeated(): Node {
    let node = this.atom();
    for (let times = 0; ; times++) {
      let least = 0;
      let most = Infinity;
      const counted = /^\{(\d+)(,(\d*))?\}/.exec(this.text.slice(this.at, this.at + 16).join(''));
      if (this.take('+')) least = 1;
      else if (this.take('?')) most = 1;
      else if (counted) {
        this.at += counted[0].length;
        least = +counted[1];
        most = counted[2] === undefined ? least : counted[3] === '' ? Infinity : +counted[3];
        if (least > most || Math.max(least, most === Infinity ? 0 : most) > mostRepeats) throw new Error(`“${counted[0]}” is not a valid repetition count`);
      } else if (!this.take('*')) return node;
      this.take('?');  // as few as possible: whether it matches is the same
      if (times > 0 || node.is === 'assert') throw new Error('a repetition without an operand');
      node = { is: 'repeat', of: node, least, most };
    }
  }

  private one(test: Test): Node {
    if (!this.ignoreCase) return { is: 'one', test };
    const other = (c: number, to: string) => (to.length <= 2 ? (to.codePointAt(0) ?? c) : c);
    return {
      is: 'one',
      test: (c) => {
        const text = String.fromCodePoint(c);
        return test(c) || test(other(c, text.toLowerCase())) || test(other(c, text.toUpperCase()));
      },
    };
  }

  private atom(): Node {
    const c = this.text[this.at++];
    switch (c) {
      case '(': {
        if (this.take('?') && !this.take(':')) {
          const name = /^P?<\w+>/.exec(this.text.slice(this.at, this.at + 64).join(''));
          if (!name) throw new Error('“(?” is not supported: no look-around');
          this.at += name[0].length;
        }
        const node = this.choice();
        if (!this.take(')')) throw new Error('a “(” without its “)”');
        return node;
      }
      case '[':
        return this.one(this.set());
      case '.':
        return { is: 'one', test: (code) => code !== 10 };
      case '^':
        return { is: 'assert', what: 'start' };
      case '$':
        return { is: 'assert', what: 'end' };
      case '*':
      case '+':
      case '?':
        throw new Error(`“${c}” without an operand`);
      case '\\':
        return this.escape();
      default: {
        const code = c.codePointAt(0)!;
        return this.one((other) => other === code);
      }
    }
  }

  private escape(): Node {
    const c = this.text[this.at];
    if (c === 'b' || c === 'B' || c === 'A' || c === 'z') {
      this.at++;
      return { is: 'assert', what: c === 'b' ? 'word' : c === 'B' ? 'inside' : c === 'A' ? 'start' : 'end' };
    }
    if (c in classes) {
      this.at++;
      return { is: 'one', test: classes[c] };
    }
    const code = this.code();
    return this.one((other) => other === code);
  }

  /** What a backslash stands for, behind it. */
  private code(): number {
    const c = this.text[this.at++];
    if (c === undefined) throw new Error('a “\\” at the end');
    if (c in controls) return controls[c];
    if (c === 'x') {
      const digits = /^(?:([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\})/.exec(this.text.slice(this.at, this.at + 8).join(''));
      const code = parseInt(digits?.[1] ?? digits?.[2] ?? '', 16);
      if (!digits || !(code <= 0x10ffff)) throw new Error('“\\x” requires two digits');
      this.at += digits[0].length;
      return code;
    }
    if (/[\p{L}\p{N}]/u.test(c)) throw new Error(`“\\${c}” is not supported`);
    return c.codePointAt(0)!;
  }

  /** Behind a '['. */
  private set(): Test {
    const inverted = this.take('^');
    const tests: Test[] = [];
    for (let first = true; first || this.text[this.at] !== ']'; first = false) {
      if (this.at >= this.text.length) throw new Error('a “[” without its “]”');
      const known = this.text[this.at] === '\\' ? classes[this.text[this.at + 1]] : undefined;
      if (known) {
        this.at += 2;
        tests.push(known);
        continue;
      }
      const low = this.member();
      let high = low;
      if (this.text[this.at] === '-' && this.at + 1 < this.text.length && this.text[this.at + 1] !== ']') {
        this.at++;
        high = this.member();
        if (high < low) throw new Error('a range with its end before its start');
      }
      tests.push(between(low, high));
    }
    this.at++;
    return inverted ? not(anyOf(tests)) : anyOf(tests);
  }

  private member(): number {
    const c = this.text[this.at++];
    return c === '\\' ? this.code() : c.codePointAt(0)!;
  }
}

/** Steps of an automaton, the last first: `next` is where it goes on. Returns where it begins. */
function compile(node: Node, next: number, steps: Step[]): number {
  const add = (step: Step) => {
    if (steps.length >= mostSteps) throw new Error('it is too large');
    return steps.push(step) - 1;
  };
  switch (node.is) {
    case 'one':
      return add({ ...node, next });
    case 'assert':
      return add({ ...node, next });
    case 'all':
      return node.of.reduceRight((after, part) => compile(part, after, steps), next);
    case 'any':
      return add({ is: 'split', next: node.of.map((part) => compile(part, next, steps)) });
    case 'repeat': {
      let at = next;
      if (node.most === Infinity) {
        const loop: Step = { is: 'split', next: [next] };
        at = add(loop);
        loop.next.push(compile(node.of, at, steps));
      } else {
        for (let i = node.least; i < node.most; i++) at = add({ is: 'split', next: [next, compile(node.of, at, steps)] });
      }
      for (let i = 0; i < node.least; i++) at = compile(node.of, at, steps);
      return at;
    }
  }
}

/** Where the automaton may be between two characters, and what was before. */
interface State {
  at: number[];
  begun: boolean;
  afterWord: boolean;
  next: Map<number, State | boolean>;
}

export class Pattern {
  private readonly steps: Step[] = [];
  private readonly begin: number;
  private readonly states = new Map<string, State>();

  /** Throws an Error that says what is wrong with it. */
  constructor(text: string, { ignoreCase = false } = {}) {
    const match = this.steps.push({ is: 'match' }) - 1;
    this.begin = compile(new Parser(text, ignoreCase).parse(), match, this.steps);
  }

  /** Whether some part of `text` is like this. */
  test(text: string): boolean {
    let state: State | boolean = this.state([], false, false);
    for (let i = 0; i < text.length; ) {
      const code = text.codePointAt(i)!;
      i += code > 0xffff ? 2 : 1;
      state = this.after(state, code);
      if (typeof state === 'boolean') return state;
    }
    return this.after(state, -1) === true;
  }

  private state(at: number[], begun: boolean, afterWord: boolean): State {
    const key = `${begun} ${afterWord} ${at.join()}`;
    let state = this.states.get(key);
    if (!state) {
      if (this.states.size >= mostKept) this.states.clear();
      this.states.set(key, (state = { at, begun, afterWord, next: new Map() }));
    }
    return state;
  }

  /** -1: the text ends. */
  private after(state: State, code: number): State | boolean {
    let next = state.next.get(code);
    if (next === undefined) {
      if (state.next.size >= mostKept) state.next.clear();
      state.next.set(code, (next = this.compute(state, code)));
    }
    return next;
  }

  private compute(state: State, code: number): State | boolean {
    const isWord = code >= 0 && word(code);
    const holds: Record<Assertion, boolean> = {
      start: !state.begun,
      end: code < 0,
      word: state.afterWord !== isWord,
      inside: state.afterWord === isWord,
    };
    const seen = new Set<number>();
    const after = new Set<number>();
    const open = [...state.at, this.begin];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      if (seen.has(at)) continue;
      seen.add(at);
      const step = this.steps[at];
      if (step.is === 'match') return true;
      if (step.is === 'split') open.push(...step.next);
      else if (step.is === 'assert') holds[step.what] && open.push(step.next);
      else if (code >= 0 && step.test(code)) after.add(step.next);
    }
    return code < 0 ? false : this.state([...after].sort((a, b) => a - b), true, isWord);
  }
}
