'use strict';
// A program that survives errors nobody caught, in the middle of labelled work. Exit status 0: after each
// of them nothing was left on display.
const assert = require('node:assert/strict');
const { labelsInForce } = require('../build/Release/customlabels.node');
const { withLabels } = require('../index.js');

const fail = () => { assert.equal(labelsInForce().length, 2); throw new Error('on purpose'); };
let caught = 0;
process.on('uncaughtException', (error) => {
  assert.equal(error.message, 'on purpose');
  ++caught;
});
withLabels({ tenant: 'acme' }, () => {
  setTimeout(fail, 1);
  setTimeout(() => process.nextTick(fail), 2);
  queueMicrotask(fail);
  setImmediate(fail);
  Promise.resolve().then(fail);
});
setTimeout(() => {
  assert.equal(caught, 5);
  assert.equal(labelsInForce().length, 0);
  Promise.resolve().then(() => assert.equal(labelsInForce().length, 0)).then(() => process.exit(0));
}, 50);
