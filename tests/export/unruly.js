// An engine for tests that takes requests as it pleases, and says what it has taken.
//
// usage: unruly.js http|grpc PORT SEED. Prints its port, then before it responds to a request a line of JSON:
// {"run", "items", "taken", "told", "refused", "how"}. `run` is the header X-Run; `told`: nothing that it does hides
// from the sender whether it has taken the request; `refused`: it never will. Requests of more than 64 KiB are too
// large for it.
// After SIGUSR2 it takes all that are not.
'use strict';
const fs = require('fs');
const zlib = require('zlib');

const [protocol, wanted, seed] = process.argv.slice(2);
const mostBytes = 64 << 10;
let state = Number(seed);
let calm = false;
process.on('SIGUSR2', () => { calm = true; });
process.on('uncaughtException', (error) => {
  if (!['ECONNRESET', 'EPIPE', 'ERR_STREAM_DESTROYED', 'ERR_HTTP2_STREAM_ERROR', 'ERR_HTTP2_SESSION_ERROR',
        'ERR_HTTP2_INVALID_STREAM', 'ERR_HTTP2_INVALID_SESSION'].includes(error.code)) throw error;
});

function chance(most) {  // mulberry32
  state = (state + 0x6D2B79F5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % most;
}

// ExportProfilesServiceResponse { partial_success { rejected_profiles, error_message } }
function partial(rejected, message) {
  const text = Buffer.from(message);
  const inner = Buffer.concat([Buffer.from([0x08, rejected, 0x12, text.length]), text]);
  return Buffer.concat([Buffer.from([0x0a, inner.length]), inner]);
}

// A timeout of the sender would be one more thing that it does not know of.
const later = (what) => setTimeout(what, 300);

const protobuf = {'Content-Type': 'application/x-protobuf'};
const page = {'Content-Type': 'text/html'};
const text = {'Content-Type': 'text/plain'};
const date = (seconds) => new Date((Math.floor(Date.now() / 1000) + seconds) * 1000).toUTCString();

function respond(response, status, headers = {}, body = '') {
  response.writeHead(status, {'Content-Length': Buffer.byteLength(body), ...headers});
  response.end(body);
}
function raw(response, bytes, more) {
  const socket = response.socket;
  socket.on('error', () => {});
  socket.write(bytes);
  if (more === undefined) return socket.end();
  const go = () => { while (!socket.destroyed && socket.write(more)); };
  socket.on('drain', go);
  go();
}

const TAKEN = {taken: true, told: true};
const NOT = {taken: false, told: true};
const LOST = {taken: true, told: false};
const REFUSED = {taken: false, told: true, refused: true};

const http = [
  [8, TAKEN, (r) => respond(r, 200, protobuf)],
  [1, TAKEN, (r) => respond(r, 202)],
  [1, TAKEN, (r) => respond(r, 200, protobuf, partial(3, 'old'))],
  [1, TAKEN, (r) => respond(r, 200, {...protobuf, 'Content-Encoding': 'gzip'}, zlib.gzipSync(partial(2, 'older')))],
  [1, TAKEN, (r) => respond(r, 200, {...protobuf, 'Content-Encoding': 'gzip'}, zlib.gzipSync(Buffer.alloc(8 << 20)))],
  [1, TAKEN, (r) => raw(r, 'HTTP/1.1 200 OK\r\n\r\n', Buffer.alloc(65536))],
  [1, TAKEN, (r) => raw(r, 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc')],
  [1, TAKEN, (r) => { r.writeHead(200, protobuf); r.write('\x0a'); later(() => r.socket?.destroy()); }],
  [1, NOT, (r) => respond(r, 429, text, 'slow down')],
  [1, NOT, (r) => respond(r, 429, {'Retry-After': '1'})],
  [1, NOT, (r) => respond(r, 503, {'Retry-After': date(1)})],
  [1, NOT, (r) => respond(r, 429, {'Retry-After': 'Thu, 01 Jan 1970 00:00:00 GMT'})],
  [1, NOT, (r) => respond(r, 429, {'Retry-After': 'soon'})],
  [2, NOT, (r) => respond(r, 503, page, '<html>' + 'no '.repeat(10000))],
  [1, NOT, (r) => respond(r, 502, text, 'bad gateway')],
  [1, NOT, (r) => respond(r, 504)],
  [1, NOT, (r) => respond(r, 500, text, 'rpc error: service is unavailable')],
  [1, NOT, (r) => respond(r, 200, page, '<html>Log in</html>')],
  [1, NOT, (r) => r.socket.destroy()],
  [1, NOT, (r) => r.socket.resetAndDestroy()],
  [1, NOT, (r) => raw(r, 'HTTP/1.1 2')],
  [1, NOT, (r) => raw(r, '\x00\xffnonsense\r\n\r\n')],
  [1, NOT, (r) => raw(r, 'HTTP/1.1 100 Continue\r\n\r\n')],
  [1, NOT, (r) => respond(r, 307, {Location: '/moved'}), '/moved'],
  [1, NOT, (r) => later(() => r.socket?.destroy())],
  [1, REFUSED, (r) => respond(r, 400, text, 'no dictionary')],
  [1, REFUSED, (r) => respond(r, 302, {Location: 'http://127.0.0.1:1/'})],
  [1, LOST, (r) => r.socket.destroy()],
  [1, LOST, (r) => later(() => r.socket?.destroy())],
  [1, LOST, () => process.kill(process.pid, 'SIGKILL')],
];

// google.rpc.Status { details { type_url, RetryInfo { retry_delay { seconds = 1 } } } }
const retryInfo = (() => {
  const field = (number, bytes) => Buffer.concat([Buffer.from([number << 3 | 2, bytes.length]), bytes]);
  const any = Buffer.concat([field(1, Buffer.from('type.googleapis.com/google.rpc.RetryInfo')), field(2, field(1, Buffer.from([8, 1])))]);
  return field(3, any).toString('base64');
})();

function status(stream, code, {message = '', more = {}, body = null} = {}) {
  const trailers = {'grpc-status': String(code), 'grpc-message': message, ...more};
  if (body === null) return stream.respond({':status': 200, 'content-type': 'application/grpc', ...trailers}, {endStream: true});
  stream.respond({':status': 200, 'content-type': 'application/grpc'}, {waitForTrailers: true});
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  stream.end(Buffer.concat([head, body]));
}
const reset = (code) => (s) => s.close(code);

const grpc = [
  [8, TAKEN, (s) => status(s, 0, {body: Buffer.alloc(0)})],
  [1, TAKEN, (s) => status(s, 0, {body: partial(3, 'old')})],
  [1, NOT, (s) => status(s, 8, {message: 'slow down'})],
  [1, NOT, (s) => status(s, 8, {message: 'wait', more: {'grpc-status-details-bin': retryInfo}})],
  [1, NOT, (s) => status(s, 8, {message: 'wait', more: {'grpc-status-details-bin': 'AAAA'}})],
  [1, NOT, (s) => status(s, 14, {message: 'unavailable'})],
  [1, NOT, (s) => status(s, 4)],
  [1, NOT, (s) => status(s, 10)],
  [1, NOT, (s) => status(s, 13, {message: 'the service is unavailable'})],
  [1, NOT, (s) => { s.respond({':status': 503, 'content-type': 'text/html'}); s.end('<html>no</html>'); }],
  [1, NOT, (s) => { s.respond({':status': 429, 'content-type': 'text/plain'}); s.end('slow down'); }],
  [1, NOT, (s) => { s.respond({':status': 200, 'content-type': 'text/html'}); s.end('<html>no</html>'); }],
  [1, NOT, (s) => { s.respond({':status': 200, 'content-type': 'application/grpc'}); s.end(); }],
  [1, NOT, reset(7)],   // REFUSED_STREAM
  [1, NOT, reset(2)],   // INTERNAL_ERROR
  [1, NOT, reset(11)],  // ENHANCE_YOUR_CALM
  [2, NOT, (s) => { const session = s.session; session.goaway(0, Math.max(0, s.id - 2)); session.close(); s.close(7); }],
  [1, NOT, (s) => { const session = s.session; session.goaway(11, Math.max(0, s.id - 2)); session.destroy(); }],
  [1, NOT, (s) => s.session.destroy()],
  [1, NOT, (s) => later(() => s.session?.destroy())],
  [1, TAKEN, (s) => { const session = s.session; status(s, 0, {body: Buffer.alloc(0)}); session.close(); }],  // GOAWAY, and all is taken
  [1, REFUSED, (s) => status(s, 3, {message: 'no dictionary'})],
  [1, REFUSED, (s) => status(s, 12)],
  [1, LOST, reset(2)],
  [1, LOST, (s) => later(() => s.session?.destroy())],
  [1, TAKEN, (s) => { s.respond({':status': 200, 'content-type': 'application/grpc'}); s.write(Buffer.alloc(5)); later(() => s.session?.destroy()); }],
  [1, LOST, () => process.kill(process.pid, 'SIGKILL')],
];

const behaviours = protocol === 'http' ? http : grpc;
const tooLarge = [0, NOT, protocol === 'http' ? (r) => respond(r, chance(2) ? 413 : 429, text, 'too large')
  : (s) => status(s, 8, {message: 'trying to send message larger than max'})];

function serve(to, packed, headers, path) {
  const body = zlib.gunzipSync(packed);
  let chosen = behaviours[0];
  if (body.length > mostBytes) {
    chosen = tooLarge;
  } else if (!calm && chance(2)) {
    let left = chance(behaviours.reduce((sum, one) => sum + one[0], 0));
    chosen = behaviours.find((one) => (left -= one[0]) < 0);
    if (chosen[3] === path) chosen = behaviours[0];  // not in a circle
  }
  const {taken, told, refused = false} = chosen[1];
  fs.writeSync(1, JSON.stringify({run: headers['x-run'], items: body.toString(), taken, told, refused, how: String(chosen[2])}) + '\n');
  chosen[2](to);
}

function collect(stream, done) {
  const chunks = [];
  stream.on('data', (chunk) => chunks.push(chunk));
  stream.on('end', () => done(Buffer.concat(chunks)));
  stream.on('error', () => {});
}

let server;
if (protocol === 'http') {
  server = require('http').createServer((request, response) => collect(request, (bytes) => serve(response, bytes, request.headers, request.url)));
} else {
  server = require('http2').createServer();
  server.on('session', (session) => session.on('error', () => {}));
  server.on('stream', (stream, headers) => collect(stream, (bytes) => serve(stream, bytes.subarray(5), headers, '')));
}
server.listen(Number(wanted), '127.0.0.1', () => fs.writeSync(1, server.address().port + '\n'));
