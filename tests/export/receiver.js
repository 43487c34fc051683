// A collector for tests: see receiver.py, whose arguments and output these are.
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

const words = process.argv.slice(2);
const folder = words.shift();
let port = 0, tls = null;
while (words[0].startsWith('--')) {
  const option = words.shift();
  if (option === '--port') port = Number(words.shift());
  else if (option === '--clients') Object.assign(tls, {ca: fs.readFileSync(words.shift()), requestCert: true, rejectUnauthorized: true});
  else tls = {cert: fs.readFileSync(words.shift()), key: fs.readFileSync(words.shift())};
}
let count = 0;

function varint(number) {
  const out = [];
  for (; number > 0x7f; number = Math.floor(number / 128)) out.push((number & 0x7f) | 0x80);
  out.push(number);
  return Buffer.from(out);
}

function partial(rejected, message) {
  const text = Buffer.from(message);
  const inner = Buffer.concat([Buffer.from([0x08]), varint(rejected), Buffer.from([0x12]), varint(text.length), text]);
  return Buffer.concat([Buffer.from([0x0a]), varint(inner.length), inner]);
}

function obey(told, response, size) {
  const colon = told.indexOf(':');
  const kind = colon < 0 ? told : told.slice(0, colon);
  const rest = colon < 0 ? '' : told.slice(colon + 1);
  const second = rest.indexOf(':');
  const message = () => partial(Number(rest.slice(0, second)), rest.slice(second + 1));
  const answer = (status, body = '', type = 'application/x-protobuf', more = {}) => {
    response.writeHead(status, {'Content-Type': type, 'Content-Length': Buffer.byteLength(body), ...more});
    response.end(body);
  };
  const socket = response.socket;
  const endless = (head, chunk) => {
    socket.write(head);
    const more = () => { while (!socket.destroyed && socket.write(chunk)); };
    socket.on('drain', more);
    more();
  };
  if (kind === 'stall') return;
  if (kind === 'close') socket.destroy();
  else if (kind === 'cut') socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc');
  else if (kind === 'header') endless('HTTP/1.1 200 OK\r\n', 'X-More: ' + 'x'.repeat(1000) + '\r\n');
  else if (kind === 'huge') endless('HTTP/1.1 200 OK\r\n\r\n', Buffer.alloc(65536));
  else if (kind === 'garbage') answer(200, '<html>Welcome</html>', 'text/html');
  else if (kind === 'above') answer(size > Number(rest.slice(0, second)) ? Number(rest.slice(second + 1)) : 200);
  else if (kind === 'partial') answer(200, message());
  else if (kind === 'packed') answer(200, zlib.gzipSync(message()), 'application/x-protobuf', {'Content-Encoding': 'gzip'});
  else if (kind === 'text') answer(Number(rest.slice(0, second)), rest.slice(second + 1), 'text/plain');
  else if (told.includes('>')) {
    answer(Number(told.split('>')[0]), '', 'text/plain', {Location: told.slice(told.indexOf('>') + 1)});
  } else {
    const when = rest === 'date' ? new Date((Math.floor(Date.now() / 1000) + 2) * 1000).toUTCString() : rest;
    answer(Number(kind), '', 'application/x-protobuf', rest ? {'Retry-After': when} : {});
  }
}

function serve(request, response) {
  const chunks = [];
  response.socket.on('error', () => {});
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const told = words[Math.min(count, words.length - 1)];
    const file = path.join(folder, `${port}-${String(count++).padStart(6, '0')}`);
    const body = zlib.gunzipSync(Buffer.concat(chunks));
    fs.writeFileSync(file, body);
    console.log(JSON.stringify({
      answer: told, path: request.url, at: Number(process.hrtime.bigint()) / 1e9, body: file, headers: request.headers,
    }));
    obey(told, response, body.length);
  });
}

const server = tls ? require('https').createServer(tls, serve) : require('http').createServer(serve);
server.listen(port, '127.0.0.1', () => {
  port = server.address().port;
  console.log(port);
});
