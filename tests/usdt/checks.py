"""What must be true of every file that is linked with probes."""
import re
import struct

from dof import AARCH64, PT_GNU_STACK, W, X
from step import run


def is_stub(site):
    """Whether a site is what callers end in that the object step never saw."""
    return site.function.startswith("__dtrace")


def wrong_places(elf, machine, labels, sites):
    """Sites that are not right before one of the labels, and labels without a site; as sentences. Stubs have none."""
    left = {}
    for probe, address in labels:
        left.setdefault(probe, set()).add(address)
    problems = []
    symbols = elf.symbols() if any(map(is_stub, sites)) else {}
    for site in sites:
        if is_stub(site):
            if not 0 <= site.address - symbols[site.function][0] <= 8:  # behind endbr64 or bti
                problems.append(f"{site} is not in the stub, at {symbols[site.function][0]:#x}")
            continue
        name = f"{site.provider}_{site.probe}"
        behind = site.address + machine.call
        found = min((a for a in left.get(name, ()) if a >= behind), default=None)
        if found is not None and found != behind and not straight_on(elf, behind, found):
            found = None
        if found is None:
            problems.append(f"{site} is at no label: {[hex(a) for a in left.get(name, ())]}")
        else:
            left[name].remove(found)
    problems += [f"no site at the label of {probe} at {address:#x}" for probe, rest in left.items() for address in rest]
    return problems


# add and sub $imm8, %esp; lea imm8(…), %esp; pop %reg; each for x86-64 behind its prefix
TAKES_OFF = re.compile(rb"(?:\x48?\x83[\xc4\xec].|\x48?\x8d\x64\x24.|\x48?\x8d\x65.|\x41?[\x58-\x5f])*", re.S)


def straight_on(elf, start, end):
    """Whether the instructions from `start` to `end` are few and neither call nor jump: callers take their
    arguments off the stack there, and clang moves what has no effect on memory to there."""
    if not 0 < end - start <= 24:
        return False
    if elf.machine == AARCH64:  # branches and system instructions are a group of encodings of their own
        words = struct.unpack(f"<{(end - start) // 4}I", elf.code(start, end - start))
        return not any(word >> 26 & 7 == 5 for word in words)
    if TAKES_OFF.fullmatch(elf.code(start, end - start)):
        return True
    said = run("objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={end}", elf.path)
    found = re.findall(r"^ *[0-9a-f]+:\t(\S+)", said, re.M)
    return bool(found) and not any(re.match(r"call|j|ret|\(bad\)", name) for name in found)


def sound(elf):
    """Yields what a linked file has that it must not have."""
    first, last = elf.dof_range()
    relocated = [hex(a) for a in elf.dynamic_relocations() if first <= a < last]
    if relocated:
        yield f"the dynamic linker relocates the DOF at {relocated}"
    for _, flags, _, start, size, _ in elf.loads():
        if flags & W and start < last and first < start + size:
            yield "the DOF can be written"
    writable = [(a, a + m) for _, flags, _, a, _, m in elf.loads() if flags & W]
    semaphores = elf.semaphores()
    for probe, at in semaphores.items():
        if at % 2 or not any(start <= at < end for start, end in writable):
            yield f"the semaphore of {probe}, {at:#x}, cannot be counted in"
        elif any(elf.code(at, 2)):
            yield f"{probe} is enabled in the file"
    if len(set(semaphores.values())) != len(semaphores):
        yield f"probes share a semaphore: {semaphores}"
    exported = [n for n in elf.symbols(".dynsym", ".dynstr") if "__dtrace" in n or "$dtrace" in n]
    if exported:
        yield f"exports {exported}"
    if any(kind == PT_GNU_STACK and flags & X for kind, flags, *_ in elf.segments):
        yield "the stack is executable"
    undefined = [n for n, (_, section, binding, _) in elf.symbols().items()
                 if "__dtrace" in n and section == 0 and binding == 1]
    if undefined:
        yield f"undefined {undefined}"
