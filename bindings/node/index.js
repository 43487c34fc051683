'use strict';
// vitrine-labels: for whom does this thread work, and what is this process; on display for observers outside.
const { isUtf8 } = require('node:buffer');
const addon = require('./build/Release/customlabels.node');
const follow = require('./follow.js');

/** [key, value, key, value…] of an object or a Map. */
function pairsOf(labels) {
  if (labels === null || typeof labels !== 'object')
    throw new TypeError('labels must be an object or a Map');
  const pairs = [];
  for (const [key, value] of labels instanceof Map ? labels : Object.entries(labels)) {
    if (typeof key !== 'string')
      throw new TypeError(`a label's key must be a string, not ${typeof key}`);
    if (typeof value !== 'string' && !(value instanceof Uint8Array))
      throw new TypeError(`label ${JSON.stringify(key)} must be a string or a Buffer, not ${
        value === null ? 'null' : typeof value}`);
    pairs.push(key, value);
  }
  return pairs;
}

function idOf(trace, name, digits) {
  const id = trace?.[name];
  if (typeof id !== 'string' || id.length !== digits || !/^[0-9a-f]*$/i.test(id))
    throw new TypeError(`${name} must be ${digits} hex digits`);
  return id;
}

function bytesOfTrace(trace) {
  const bytes = Buffer.alloc(25);
  bytes.write(idOf(trace, 'traceId', 32), 0, 'hex');
  bytes.write(idOf(trace, 'spanId', 16), 16, 'hex');
  bytes[24] = trace.traceFlags ?? 0;
  return bytes;
}

function checkFunction(fn) {
  if (typeof fn !== 'function') throw new TypeError(`fn must be a function, not ${fn === null ? 'null' : typeof fn}`);
}

function withLabels(labels, fn) {
  checkFunction(fn);
  const pairs = pairsOf(labels);
  follow.current();  // what these labels go on top of
  return follow.run(addon.derive(pairs), fn);
}

function withTrace(trace, labels, fn) {
  checkFunction(fn);
  const pairs = pairsOf(labels);
  const ids = bytesOfTrace(trace);
  follow.current();
  return follow.run(addon.derive(pairs, ids), fn);
}

function bindLabels(fn) {
  checkFunction(fn);
  const set = follow.current();
  return function bound(...args) {
    return follow.run(set, () => fn.apply(this, args));
  };
}

function currentLabels() {
  follow.current();
  const pairs = addon.labelsInForce();
  const labels = new Map();
  for (let i = 0; i < pairs.length; i += 2) {
    const key = pairs[i].toString();
    const value = pairs[i + 1];
    if (!labels.has(key)) labels.set(key, isUtf8(value) ? value.toString() : value);
  }
  return labels;
}

function publishContext(resource = {}) {
  if (resource === null || typeof resource !== 'object')
    throw new TypeError('the resource must be an object');
  for (const [key, value] of Object.entries(resource))
    if (!['string', 'number', 'boolean'].includes(typeof value))
      throw new TypeError(`${JSON.stringify(key)} must be a string, a number or a boolean, not ${typeof value}`);
  addon.publishContext(Object.entries(resource).flat());
}

module.exports = { withLabels, withTrace, bindLabels, currentLabels, publishContext };
