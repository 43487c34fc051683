#!/usr/bin/env python3
"""A traced probe harms nobody: neither what its function keeps below the stack pointer, nor a forked
child. On kernels which optimise five-byte nops unsafely (Linux 6.18), those do harm: seen here, so that
this test can see it.

usage: traced.py SOURCE_ROOT
"""
import ctypes
import errno
import pathlib
import re
import sys
import tempfile

from build import COMPAT, SDT, cases, run

FIRES = 1000
SAFE = ["red zone kept", "child's red zone kept"]


def kernel_is_unsafe():
    """Whether the kernel's answer to a stray call of uprobe(2) is that of 6.18.

    See docs/formats/sdt.md, "Nops and kernels".
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(336) == -1 and ctypes.get_errno() == errno.ENXIO


def traced(folder, *flags):
    """What the subject says when bpftrace counts its fires, and the count."""
    path = pathlib.Path(folder) / "subject"
    run("gcc", "-O2", "-mno-red-zone", *flags, COMPAT, SDT / "traced/subject.c", "-o", path)
    said = run("bpftrace", "-e", f"usdt:{path}:traced:fire {{ @fires = count(); }}", "-c", path)
    count = re.search(r"@fires: (\d+)", said)
    return [line for line in said.splitlines() if "red zone" in line or "child" in line], \
        int(count[1]) if count else 0


def ours(folder, *flags):
    said, count = traced(folder, *flags)
    assert said == SAFE, said
    assert count >= FIRES, f"{count} fires"


def five_bytes(folder):
    said, count = traced(folder, "-DFIVE_BYTES")
    assert count >= FIRES, f"{count} fires"
    assert (said == SAFE) != kernel_is_unsafe(), said


def main():
    with tempfile.TemporaryDirectory() as folder:
        return cases(lambda: [("our nops", ours, folder), ("the plain nop", ours, folder, "-DVITRINE_SDT_NOP=1"),
                              ("a five-byte nop, as the kernel's answer has it", five_bytes, folder)])


if __name__ == "__main__":
    sys.exit(main())
