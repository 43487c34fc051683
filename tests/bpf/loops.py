#!/usr/bin/env python3
"""Whether Linux 6.1 accepts the loops of BPF programs: its verifier walks each function depth first, and of the edges that
lead back to an instruction on the way it accepts those of jumps alone (kernel/bpf/verifier.c, check_cfg). A loop that an
instruction falls into from below, as clang lays out some, is "back-edge from insn N to N+1" there; newer kernels take it.

    loops.py OBJECT.bpf.o…      prints the number of loops; fails when there is one of that kind
"""
import sys

from stack_depth import Object

JUMP, JUMP_32 = 5, 6  # classes of instructions
ALWAYS, CALL, EXIT = 0x00, 0x80, 0x90


def edges(at, op, offset):
    """The instructions that may follow the one at `at`, in the verifier's order, and whether each may lead back."""
    if op & 7 not in (JUMP, JUMP_32) or op & 0xF0 == CALL:
        return [(at + 8, False)]
    if op & 0xF0 == EXIT:
        return []
    target = at + 8 * (offset + 1)
    return [(target, True)] if op & 0xF0 == ALWAYS else [(at + 8, True), (target, True)]


def walk(obj, function):
    """How many loops the function has, and the instructions that fall into one from below."""
    code = {at: edges(at, op, offset) for at, op, _, _, offset, _ in obj.instructions(function)}
    start = function[1]
    way, on_way, seen = [(start, 0)], {start}, {start}
    loops, refused = 0, []
    while way:
        at, number = way.pop()
        if number == len(code[at]):
            on_way.discard(at)
            continue
        way.append((at, number + 1))
        follower, may_lead_back = code[at][number]
        if follower in on_way:
            loops += 1
            if not may_lead_back:
                refused.append(at)
        elif follower not in seen:
            way.append((follower, 0))
            on_way.add(follower)
            seen.add(follower)
    return loops, refused


def main():
    failed = False
    for path in sys.argv[1:]:
        obj = Object(path)
        total = 0
        for function, (name, _) in obj.functions.items():
            loops, refused = walk(obj, function)
            total += loops
            for at in refused:
                failed = True
                print(f"FAILED {path}: {name}: instruction {(at - function[1]) // 8} falls back into a loop, which Linux 6.1 refuses")
        print(f"{path}: {len(obj.functions)} functions, {total} edges that lead back")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
