#!/usr/bin/env python3
"""A collector that takes everything, and notes the path and the size of each request.

usage: collector.py FOLDER        FOLDER/port: where it listens on 127.0.0.1; FOLDER/got: a line a request
"""
import http.server
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with (folder / "got").open("a") as got:
            print(self.path, len(body), file=got)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
(folder / "port.part").write_text(str(server.server_port))
(folder / "port.part").rename(folder / "port")
server.serve_forever()
