"""Compiles, runs the object step and links, for the tests of `vitrine usdt`; and the machines that they are
compiled for.

usage of every test: NAME.py SOURCE_ROOT VITRINE
"""
import os
import pathlib
import subprocess
import sys
import threading
from dataclasses import dataclass

ROOT = pathlib.Path(sys.argv[1]).resolve()
VITRINE = pathlib.Path(sys.argv[2]).resolve()
HERE = ROOT / "tests/usdt"
sys.path.insert(0, str(ROOT / "tests/sdt"))

from build import Failure, cases, run  # noqa: E402, F401  (what tests take from here)

LINKERS = ("bfd", "gold", "lld", "mold")
# How code is compiled, and how it is linked.
MODES = {
    "no-pie": (["-fno-pie"], ["-no-pie"]),
    "pie": (["-fPIE"], ["-pie"]),
    "static": (["-fno-pie"], ["-static"]),
    "static-pie": (["-fPIE"], ["-static-pie"]),
    "shared": (["-fPIC"], ["-shared"]),
}


@dataclass(frozen=True)
class Machine:
    name: str
    prefix: str  # of its compilers and binutils
    clang: tuple
    dynamic: tuple  # runs a dynamically linked program
    static: tuple
    call: int  # bytes that a call takes

    def compiler(self, name):
        if name.startswith("clang"):
            return [name, *self.clang]
        return [self.prefix + name]

    def runner(self, mode):
        return list(self.static if mode.startswith("static") else self.dynamic)


MACHINES = {m.name: m for m in (
    Machine("x86_64", "", (), (), (), 5),
    Machine("i386", "i686-linux-gnu-", ("--target=i686-linux-gnu",),
            ("/usr/i686-linux-gnu/lib/ld-linux.so.2", "--library-path", "/usr/i686-linux-gnu/lib"), (), 5),
    Machine("aarch64", "aarch64-linux-gnu-", ("--target=aarch64-linux-gnu",),
            ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"), ("qemu-aarch64",), 4),
)}

_lock = threading.Lock()


def linker(folder, machine, name):
    """Options that make a compiler link with `name`, whatever machine it compiles for."""
    place = pathlib.Path(folder) / f"ld-{machine.name}-{name}"
    with _lock:
        if not place.exists():
            place.mkdir()
            own = {"bfd": f"{machine.prefix}ld.bfd", "gold": f"{machine.prefix}ld.gold", "lld": "ld.lld",
                   "mold": "mold"}[name]
            os.symlink(subprocess.check_output(["which", own], text=True).strip(), place / "ld")
    return [f"-B{place}"]


def header(definition, folder, *options):
    """Writes the header of a definition into `folder`."""
    target = pathlib.Path(folder) / (pathlib.Path(definition).stem + ".h")
    run(VITRINE, "usdt", "header", *options, "-s", definition, "-o", target)
    return target


def link_step(definition, output, objects, *options):
    """The object step; the output's path."""
    run(VITRINE, "usdt", "link", *options, "-s", definition, "-o", output, *objects)
    return output
