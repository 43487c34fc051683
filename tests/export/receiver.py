#!/usr/bin/env python3
"""A collector for tests: answers each request as it was told, and says what came.

usage: receiver.py FOLDER [--port N] [--tls CERTIFICATE KEY [--clients AUTHORITY]] ANSWER...

Prints its port, then one line of JSON a request: {"answer", "path", "headers", "at" (s), "body"
(a file in FOLDER with what the body held, gunzipped)}. The last ANSWER goes for all that follow:
  200            taken                          partial:N:TEXT  taken but for N profiles
  NNN            that status                    NNN:S           and Retry-After: S ("date": in 1 to 2 s)
  stall          no answer                      close           the connection closes before one
  cut            200, and the answer breaks off huge            200 and an endless answer
  garbage        200 and a page                 header          endless headers
  NNN>URL        a redirection                  text:NNN:TEXT   a status and why
  above:BYTES:NNN  that status to a body of more than BYTES, before gzip; 200 to others
  packed:N:TEXT  partial, gzipped though nobody asked for that
receiver.js is the same on another stack.
"""
import email.utils
import gzip
import http.server
import json
import pathlib
import ssl
import sys
import threading
import time

arguments = sys.argv[1:]
folder = pathlib.Path(arguments.pop(0))
port, tls, clients = 0, None, None
while arguments[0].startswith("--"):
    option = arguments.pop(0)
    if option == "--port":
        port = int(arguments.pop(0))
    elif option == "--clients":
        clients = arguments.pop(0)
    else:
        tls = (arguments.pop(0), arguments.pop(0))
answers = arguments
lock = threading.Lock()
count = 0


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def partial(rejected, message):
    inner = b"\x08" + varint(rejected) + b"\x12" + varint(len(message)) + message
    return b"\x0a" + varint(len(inner)) + inner


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", kind="application/x-protobuf", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        global count
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            told = answers[min(count, len(answers) - 1)]
            file = folder / f"{port}-{count:06}"
            count += 1
            file.write_bytes(body)
            line = {"answer": told, "path": self.path, "at": time.monotonic(), "body": str(file),
                    "headers": {name.lower(): value for name, value in self.headers.items()}}
            print(json.dumps(line), flush=True)
        try:
            self.obey(told, len(body))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def obey(self, told, size):
        kind, _, rest = told.partition(":")
        if kind == "stall":
            time.sleep(3600)
        elif kind == "close":
            self.close_connection = True
        elif kind == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            self.close_connection = True
        elif kind == "header":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"X-More: " + 1000 * b"x" + b"\r\n")
        elif kind == "huge":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                self.wfile.write(bytes(65536))
        elif kind == "garbage":
            self.answer(200, b"<html>Welcome</html>", "text/html")
        elif kind == "above":
            most, _, status = rest.partition(":")
            self.answer(int(status) if size > int(most) else 200)
        elif kind == "partial":
            rejected, _, message = rest.partition(":")
            self.answer(200, partial(int(rejected), message.encode()))
        elif kind == "packed":
            rejected, _, message = rest.partition(":")
            self.answer(200, gzip.compress(partial(int(rejected), message.encode())), headers=[("Content-Encoding", "gzip")])
        elif kind == "text":
            status, _, message = rest.partition(":")
            self.answer(int(status), message.encode(), "text/plain")
        elif ">" in told:
            status, _, where = told.partition(">")
            self.answer(int(status), headers=[("Location", where)])
        else:
            if rest == "date":
                rest = email.utils.formatdate(int(time.time()) + 2, usegmt=True)
            self.answer(int(kind), headers=[("Retry-After", rest)] if rest else [])

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
server.daemon_threads = True
if tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    server.socket = context.wrap_socket(server.socket, server_side=True)
port = server.server_address[1]
print(port, flush=True)
server.serve_forever()
