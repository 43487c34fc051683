#!/usr/bin/env python3
"""How much stack each BPF program can need, as the verifiers of Linux 6.1 to 6.7 count it: no more than 512
bytes, where every function on the way takes its own, rounded up to 32, and callbacks are functions on the
way, too. Newer kernels round to less, so only there what this refuses can be loaded.

    stack_depth.py OBJECT.bpf.o…      prints the deepest way of each program; fails when one is too deep
"""
import struct
import sys

MOST = 512
ROUNDED = 32
CALL, LOAD_64, FRAME = 0x85, 0x18, 10


class Object:
    """What functions an object has: (section, offset) of each, its size, and the relocations of its code."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        (shoff,) = struct.unpack_from("<Q", self.data, 40)
        count, names = struct.unpack_from("<HH", self.data, 60)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, shoff + 64 * i) for i in range(count)]
        symtab = next(s for s in self.sections if s[1] == 2)
        strings = self.sections[symtab[6]][4]
        self.symbols = []
        for at in range(symtab[4], symtab[4] + symtab[5], 24):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            text = self.data[strings + name : self.data.index(b"\0", strings + name)].decode()
            self.symbols.append((text, info & 15, section, value, size))
        self.functions = {(s, v): (n, size) for n, kind, s, v, size in self.symbols if kind == 2}
        self.relocations = {}
        for section in self.sections:
            if section[1] != 9:  # SHT_REL
                continue
            for at in range(section[4], section[4] + section[5], 16):
                offset, info = struct.unpack_from("<QQ", self.data, at)
                self.relocations[section[7], offset] = self.symbols[info >> 32]

    def instructions(self, function):
        section, start = function
        base = self.sections[section][4]
        for at in range(start, start + self.functions[function][1], 8):
            op, registers, offset, immediate = struct.unpack_from("<BBhi", self.data, base + at)
            yield at, op, registers & 15, registers >> 4, offset, immediate

    def callee(self, function, at, op, source, immediate):
        """The function that is called, or whose address is taken, by the instruction; None: none of ours."""
        symbol = self.relocations.get((function[0], at))
        if symbol is None:
            inside = op == CALL and source == 1
            return (function[0], at + 8 * (immediate + 1)) if inside else None
        _, kind, section, value, _ = symbol
        if kind == 3:  # a section: the instruction says where in it
            value = 8 * (immediate + 1) if op == CALL else immediate
        return (section, value) if (section, value) in self.functions else None


def survey(obj, function):
    """How much stack it takes itself, and what it calls."""
    depth, callees = 0, set()
    copies = {FRAME}  # registers that may hold the frame's address
    for at, op, target, source, offset, immediate in obj.instructions(function):
        if op in (CALL, LOAD_64):
            callee = obj.callee(function, at, op, source, immediate)
            if callee:
                callees.add(callee)
        if op & 7 in (1, 3) and (source if op & 7 == 1 else target) == FRAME:  # loads, stores
            depth = max(depth, -offset)
        if op & 7 == 2 and target == FRAME:
            depth = max(depth, -offset)
        if op == 0xBF and source == FRAME:
            copies.add(target)
        if op == 0x07 and target in copies and -MOST <= immediate < 0:
            depth = max(depth, -immediate)
    return depth, callees


def deepest(obj, function, known):
    """(bytes, names) of the way that takes most."""
    if function not in known:
        own, callees = survey(obj, function)
        rounded = max(1, own) + ROUNDED - 1
        rounded -= rounded % ROUNDED
        below = max((deepest(obj, callee, known) for callee in callees), default=(0, []))
        known[function] = rounded + below[0], [f"{obj.functions[function][0]} {own}"] + below[1]
    return known[function]


def main(paths):
    failed = not paths
    for path in paths:
        obj, known = Object(path), {}
        text = [i for i, s in enumerate(obj.sections) if s[1] == 1 and s[2] & 4]
        programs = [f for f in obj.functions if f[0] in text]
        called = set().union(*(survey(obj, f)[1] for f in programs))
        for program in sorted(set(programs) - called):
            total, way = deepest(obj, program, known)
            failed = failed or total > MOST
            print(f"{path.split('/')[-1]}: {total} of {MOST}{' TOO DEEP' if total > MOST else ''}: {' > '.join(way)}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
