#!/usr/bin/env python3
"""The exporter in trouble of every kind, at random: each item that it was given is at the engine, once.

    unrest.py http|grpc SENDER SECONDS [SEED]    (in a mount namespace of its own)

The engine (unruly.js) does not take what it is sent, or takes it and does not say so, or dies; the sender is killed or
ended, its clock is set, others write into its spool, the disk is full. What may be missing then is what the engine has
refused, and what may be there again is what the sender could not know of: of the requests that were taken, those whose
response was lost, and the last one of each run of the engine and of the sender.
"""
import collections
import json
import os
import pathlib
import queue
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROTOCOL, SENDER, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1 << 30)
HERE = pathlib.Path(__file__).parent
PATIENCE = 60  # seconds
chance = random.Random(SEED)
DISK = 64 << 20  # bytes of the spool's file system
BACKLOG = 30  # requests that wait, until no more come


def failed(text):
    raise SystemExit(f"FAILED {text}\nseed {SEED}")


class Program:
    """A process, and the lines that it prints."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):  # else it was killed while it wrote it, and had not responded
                self.lines.put(line.rstrip("\n"))

    def line(self):
        try:
            return self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            return failed(f"{self.process.args[0]} says nothing")

    def ask(self, words):
        try:
            self.process.stdin.write(words + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            failed(f"{self.process.args[0]} has ended: {self.process.wait()}")

    def rest(self):
        """What it printed that nobody has read, when it has ended."""
        self.process.wait()
        self.reader.join()
        while not self.lines.empty():
            yield self.lines.get()


class Unrest:
    def __init__(self, folder):
        self.spool = folder
        self.next_item = 0
        self.given = set()       # items, when the sender has said that they are in the spool
        self.in_doubt = set()    # items that it was given, and killed before it said so
        self.seen = []           # of engines, in order
        # Bound all the time, so that no other program is given the port while there is no engine.
        self.place = socket.socket()
        self.place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.place.bind(("127.0.0.1", 0))
        self.port = self.place.getsockname()[1]
        self.engines = 0
        self.senders = 0
        self.clock = 0
        self.lost = set()        # items that were in doubt then
        self.waiting = 0
        self.happened = collections.Counter()
        self.begin_engine()
        self.begin_sender()

    def begin_engine(self):
        self.engines += 1
        self.engine = Program("node", str(HERE / "unruly.js"), PROTOCOL, str(self.port), str(SEED + self.engines))
        if self.engine.line() != str(self.port):
            failed("the engine has another port")

    def begin_sender(self):
        self.senders += 1
        self.sender = Program(SENDER, f"otlp+{PROTOCOL}://127.0.0.1:{self.port}", self.spool, f"X-Run: {self.senders}")
        self.sender.ask(f"clock {self.clock}")

    def look(self):
        while not self.engine.lines.empty():
            self.see(self.engine.lines.get())
        if self.engine.process.poll() is not None:  # by its own hand
            self.kill_engine()

    def see(self, line):
        self.seen.append({"engine": self.engines, **json.loads(line)})

    def kill_engine(self):
        self.engine.process.kill()
        for line in self.engine.rest():
            self.see(line)
        time.sleep(chance.choice((0, 0, 0.1, 0.3)))
        self.begin_engine()

    def new_items(self, number):
        items = []
        for _ in range(number):
            items.append(f"{self.next_item}:{chance.randbytes(chance.choice((10, 200))).hex()}")
            self.in_doubt.add(str(self.next_item))
            self.next_item += 1
        return ",".join(items)

    def give(self):
        if self.waiting > BACKLOG:
            self.settle()
            return
        for _ in range(chance.randrange(1, 4)):
            self.sender.ask("send " + self.new_items(chance.choice((1, 5, 40, 400))))
        if chance.randrange(8) == 0:
            return  # and what happens next finds it half done
        self.settle()

    def settle(self, patience=0):
        self.sender.ask(f"finish {patience}")
        sent, waiting, overflowed = map(int, self.sender.line().split())
        if overflowed:
            failed(f"{overflowed} requests had no room")
        self.given |= self.in_doubt
        self.in_doubt = set()
        self.waiting = waiting
        return waiting

    def kill_sender(self):
        self.sender.process.kill()
        self.sender.process.wait()
        self.lost |= self.in_doubt
        self.in_doubt = set()
        self.begin_sender()

    def end_sender(self):
        self.settle(chance.choice((0, 100)))
        self.sender.ask("stop")
        counts = [int(word) for word in self.sender.line().split()]
        if counts[5]:
            failed(f"{counts[5]} requests were in memory alone")
        self.sender.process.wait()
        self.begin_sender()

    def set_clock(self):
        self.clock = chance.choice((0, 0, 3600, -3600, -10**9, 10**8, 1))
        self.sender.ask(f"clock {self.clock}")

    def litter(self):
        name = chance.choice(("1.otlp.gz", "0000000000000000001.otlp.gz", "unfinished.otlp.gz", "0000000000000000002.metrics.gz",
                              "-000000000000000003.otlp.gz", "0000000000000000004-0000000000000000005.otlp.gz",
                              "0000000000000000006-.otlp.gz", "9999999999999999999.otlp.gz", "lock.otlp.gz"))
        path = pathlib.Path(self.spool, name)
        if not path.exists():
            path.write_bytes(chance.randbytes(chance.choice((0, 100))))

    def fill_disk(self):
        """So full that not all finds room; then there is room again."""
        block = pathlib.Path(self.spool, "others")
        with open(block, "wb") as file:
            at, size = 0, DISK
            while size >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), at, size)
                    at += size
                except OSError:
                    size //= 2
        for _ in range(3):
            self.give()
        self.settle()
        block.unlink()
        self.sender.ask("send " + self.new_items(1))  # and so it writes what is in memory
        self.settle()

    def had_trouble(self):
        return {True, False} <= {one["taken"] for one in self.seen}

    def run(self):
        steps = [(self.give, 20), (self.kill_engine, 2), (self.kill_sender, 3), (self.end_sender, 2), (self.set_clock, 1),
                 (self.litter, 1), (self.fill_disk, 1)]
        begin = time.monotonic()
        # On a busy machine it may take longer until there was trouble at all.
        while time.monotonic() < begin + SECONDS or not (self.had_trouble() or time.monotonic() > begin + PATIENCE):
            (step,) = chance.choices([one for one, _ in steps], [weight for _, weight in steps])
            self.happened[step.__name__] += 1
            step()
            self.look()
            time.sleep(chance.choice((0, 0, 0.01, 0.05)))
        # All that is left arrives.
        deadline = time.monotonic() + PATIENCE
        while True:
            self.look()
            self.engine.process.send_signal(signal.SIGUSR2)
            if self.settle(1000) == 0:
                break
            if time.monotonic() > deadline:
                failed("the spool is never empty")
        self.engine.process.kill()
        for line in self.engine.rest():
            self.see(line)

    def judge(self):
        arrived, again, refused, last = collections.Counter(), collections.Counter(), set(), {}
        for one in self.seen:
            one["ids"] = [item.partition(":")[0] for item in one["items"].split(",")]
            if one["refused"]:
                refused |= set(one["ids"])
            if one["taken"]:
                arrived.update(one["ids"])
                last["engine", one["engine"]] = last["sender", one["run"]] = one
        for one in self.seen:
            if one["taken"] and (not one["told"] or any(one is its for its in last.values())):
                again.update(one["ids"])
        missing = self.given - set(arrived) - refused
        strange = set(arrived) - self.given - self.lost
        twice = [item for item, count in arrived.items() if count > 1 + again[item]]
        print(f"{PROTOCOL}, seed {SEED}: {len(self.given)} items, {len(self.seen)} requests; {len(refused)} items refused; "
              f"{sum(count - 1 for count in arrived.values())} again; {dict(self.happened)}")
        if missing or strange or twice:
            for one in self.seen:
                print(f"{one['engine']} {one['run']}: {one['ids'][0]}-{one['ids'][-1]} ({len(one['ids'])}) {one['how'][:120]} {one['taken']}")
            failed(f"missing {sorted(missing, key=int)[:20]}, never given {sorted(strange, key=int)[:20]}, twice {twice[:20]}")
        if not self.had_trouble():
            failed("too little happened")


with tempfile.TemporaryDirectory() as place:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "none", place], check=True)
    try:
        unrest = Unrest(place)
        try:
            unrest.run()
        finally:
            for program in (unrest.sender, unrest.engine):
                program.process.kill()
                program.process.wait()
        unrest.judge()
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
