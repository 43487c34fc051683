'use strict';
// What is in force on this thread follows the async context.
//
// AsyncLocalStorage knows which set belongs to the code that runs; observers look at a variable of the
// thread. So the variable is set at each entry of a callback or a continuation, and put back at its end.
//
// Two kinds of entries, and two ways by which Node tells of them:
// - By async_hooks alone (Node 20 and 22): they tell of continuations of promises, too, and
//   AsyncLocalStorage has them turned on for promises anyway.
// - By V8's promise hooks for continuations, async_hooks for the rest (Node 24): AsyncLocalStorage needs
//   no hooks there, and giving each promise an id would cost twice as much as following it.
//
// Nothing is turned on before the first label.
const { AsyncLocalStorage, AsyncResource, createHook, executionAsyncResource } = require('node:async_hooks');
const { promiseHooks } = require('node:v8');
const { putInForce } = require('./build/Release/customlabels.node');

const storage = new AsyncLocalStorage();

/** The set on display: also what keeps it alive meanwhile. undefined: none. */
let inForce;
/** Of each entry that has not ended yet: who it is, and what it interrupted. */
const interrupted = [];
let following = false;

function put(set) {
  if (set === inForce) return;
  putInForce(set);
  inForce = set;
}

/** Where AsyncContextFrame is in use, the property of an AsyncResource that has its context. */
function contextFrameProperty() {
  const property = Object.getOwnPropertySymbols(new AsyncResource('vitrine'))
    .find((symbol) => symbol.description === 'context_frame');
  if (property === undefined) return undefined;
  const inUse = storage.run(null, () => new AsyncResource('vitrine')[property] !== undefined);
  return inUse ? property : undefined;
}

/** Whether hooks can be asked to leave promises alone. (Elsewhere the option is ignored.) */
function canLeavePromisesAlone() {
  let told = false;
  const hook = createHook({ init(_id, type) { told ||= type === 'PROMISE'; }, trackPromises: false });
  hook.enable();
  new Promise(() => {});
  hook.disable();
  return !told;
}

function follow() {
  following = true;
  const frame = contextFrameProperty();

  const enter = (who) => {
    interrupted.push(who, inForce);
    put(storage.getStore());
  };
  // runInAsyncScope() tells of the entry, and changes the context only then.
  const enterResource = (who) => {
    const resource = executionAsyncResource();
    if (!(resource instanceof AsyncResource)) return enter(who);
    interrupted.push(who, inForce);
    put(resource[frame]?.get(storage));
  };
  // Nobody tells of the end of what was terminated (the time-outs of node:vm do that): its entry goes with
  // the one around it. An end without an entry is that of a callback which was there before all this.
  const leave = (who) => {
    while (interrupted.length > 0) {
      const set = interrupted.pop();
      if (interrupted.pop() === who) return put(set);
    }
    put(undefined);
  };

  const before = frame === undefined ? enter : enterResource;
  if (frame !== undefined && canLeavePromisesAlone()) {
    promiseHooks.createHook({ before: enter, after: leave });
    createHook({ before, after: leave, trackPromises: false }).enable();
  } else {
    createHook({ before, after: leave }).enable();
  }
}

/** The set of the code that runs; in force from now on, if it was not. undefined: none. */
function current() {
  put(storage.getStore());
  return inForce;
}

/** Runs `fn` with exactly this set, here and in all that it starts. */
function run(set, fn) {
  if (!following) follow();
  const outer = current();
  put(set);
  try {
    return storage.run(set, fn);
  } finally {
    put(outer);
  }
}

module.exports = { current, run };
