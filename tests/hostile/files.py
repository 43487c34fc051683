"""Files that commands are given by name, and outputs that nobody takes."""
import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
from dataclasses import dataclass

from profiles import PROFILES, write_profile
from target import CannotPlay

DONE, FAILED, USAGE, NOT_PERMITTED, NOT_FOUND = range(5)  # src/cli/shell/report.hpp


def looked_at(probes=FAILED, check=FAILED, trace=FAILED):
    """The commands that take a file, and with what they are to end."""
    return {"probes of a file": ("probes FILE --json", (probes,)),
            "check of a file": ("check FILE --json", (check,)),
            "trace of a file": ("trace FILE * --duration 100ms --json", (trace,))}


FILES = {
    "FIFO": looked_at(), "socket": looked_at(), "device without end": looked_at(),
    "device full": looked_at(), "directory": looked_at(),
    "link to itself": looked_at(), "link to a FIFO": looked_at(), "empty": looked_at(),
    "1 TiB of zeros": looked_at(), "memory of the reader": looked_at(), "messages of the kernel": looked_at(NOT_PERMITTED, NOT_PERMITTED, NOT_PERMITTED),
    "descriptor of a pipe": looked_at(), "not there": looked_at(NOT_FOUND, NOT_FOUND, NOT_FOUND),
    "name with newlines": looked_at(), "rewritten while it is read": looked_at(),
}
FILES |= {name: {"open of a file": ("profile open FILE -o -", (DONE,) if is_read else (FAILED,))}
          for name, (_, is_read) in PROFILES.items()}

# A profile as JSON has text even where nothing ran; as folded stacks it would be empty, which no output refuses.
ALL = {"labels": ("labels PID --json", (FAILED,)), "probes": ("probes PID --json", (FAILED,)),
       "profile": ("profile PID --duration 200ms --format json -o -", (FAILED,)),
       "ps": ("ps --json", (FAILED,))}
INTO = {"profile": ("profile PID --duration 200ms --format pprof -o FILE", (FAILED,)),
        "profile as text": ("profile PID --duration 200ms --format json -o FILE", (FAILED,))}
OUTPUTS = {
    "full device": ALL, "closed": ALL,
    # Nobody wants the rest, as with `| head`.
    "pipe without a reader": {name: (words, (DONE,))
                              for name, (words, _) in ALL.items()},
    "limit of file size": INTO,
    "into a full device": INTO, "into a full file system": INTO, "into a directory": INTO,
    "errors into a full device": {name: (words, (DONE,)) for name, (words, _) in ALL.items()},
}


@contextlib.contextmanager
def made_file(name, directory):
    path = os.path.join(directory, f"file-{name.replace(' ', '-').replace('/', '-')}")
    undo = contextlib.ExitStack()
    with undo:
        if name == "FIFO":
            os.mkfifo(path)
        elif name == "socket":
            undo.enter_context(socket.socket(socket.AF_UNIX)).bind(path)
        elif name == "device without end":
            path = "/dev/zero"
        elif name == "device full":
            path = "/dev/full"
        elif name == "directory":
            os.mkdir(path)
        elif name == "link to itself":
            os.symlink(path, path)
        elif name == "link to a FIFO":
            os.mkfifo(path + ".fifo")
            os.symlink(path + ".fifo", path)
        elif name == "empty":
            open(path, "wb").close()
        elif name == "1 TiB of zeros":
            with open(path, "wb") as file:
                file.truncate(1 << 40)
        elif name == "memory of the reader":
            path = "/proc/self/mem"
        elif name == "messages of the kernel":
            path = "/proc/kmsg"
        elif name == "descriptor of a pipe":
            path = "/dev/stdin"
        elif name == "name with newlines":
            path += "\n\x1b[2J\n"
            with open(path, "wb") as file:
                file.write(b"\x7fELF" + b"\xff" * 100)
        elif name in PROFILES:
            write_profile(name, path)
        elif name == "rewritten while it is read":
            with open("/proc/self/exe", "rb") as file:
                whole = file.read(1 << 20)
            stop = threading.Event()
            rewriter = threading.Thread(target=_rewrite, args=(path, whole, stop))
            rewriter.start()
            undo.callback(rewriter.join)
            undo.callback(stop.set)
        yield path


def _rewrite(path, whole, stop):
    turn = 0
    with open(path, "wb+", buffering=0) as file:
        while not stop.is_set():
            turn += 1
            file.truncate(turn * 4099 % 100000)
            os.pwrite(file.fileno(), bytes(byte ^ turn & 255 for byte in whole[:4096]), 4096 * (turn % 9))


@dataclass
class Output:
    """What a command has instead of its standard output; it still has the pipe as a copy."""
    name: str
    path: str = ""

    def apply(self):
        """In the child."""
        if self.name == "full device":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        elif self.name == "closed":
            os.close(1)
        elif self.name == "pipe without a reader":
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            ends = os.pipe()
            os.dup2(ends[1], 1)
            os.close(ends[0])
            os.close(ends[1])
        elif self.name == "limit of file size":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        elif self.name == "errors into a full device":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 2)


@contextlib.contextmanager
def made_output(name, directory):
    path = os.path.join(directory, "out-" + name.replace(" ", "-"))
    with contextlib.ExitStack() as undo:
        if name == "into a full device":
            path = "/dev/full"
        elif name == "into a directory":
            os.mkdir(path)
        elif name == "into a full file system":
            os.mkdir(path)
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4096", "none", path], check=False).returncode:
                raise CannotPlay("nothing can be mounted")
            undo.callback(subprocess.run, ["umount", path], check=True)
            with open(path + "/filler", "wb", buffering=0) as file:
                file.write(bytes(4096))
            path += "/profile"
        yield Output(name, path)
