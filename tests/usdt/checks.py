"""What must be true of every file that is linked with probes."""
from dof import PT_GNU_STACK, W, X


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
        found = None
        name = f"{site.provider}_{site.probe}"
        for address in left.get(name, ()):
            if address == site.address + machine.call or (
                    machine.name == "i386" and only_pops(elf, site.address + machine.call, address)):
                found = address
        if found is None:
            problems.append(f"{site} is at no label: {[hex(a) for a in left.get(name, ())]}")
        else:
            left[name].remove(found)
    problems += [f"no site at the label of {probe} at {address:#x}" for probe, rest in left.items() for address in rest]
    return problems


def only_pops(elf, start, end):
    """i386: whether the caller takes its arguments off the stack from `start` to `end`, and does no more."""
    if not 0 < end - start <= 16:
        return False
    code = elf.code(start, end - start)
    while code:
        if code[:2] in (b"\x83\xc4", b"\x83\xec"):  # add, sub $imm8, %esp
            code = code[3:]
        elif 0x58 <= code[0] <= 0x5F:  # pop
            code = code[1:]
        elif code[:2] == b"\x8d\x64" or code[:2] == b"\x8d\x65":  # lea imm8(...), %esp
            code = code[4:]
        else:
            return False
    return True


def sound(elf):
    """Yields what a linked file has that it must not have."""
    first, last = elf.dof_range()
    relocated = [hex(a) for a in elf.dynamic_relocations() if first <= a < last]
    if relocated:
        yield f"the dynamic linker relocates the DOF at {relocated}"
    for _, flags, _, start, size, _ in elf.loads():
        if flags & W and start < last and first < start + size:
            yield "the DOF can be written"
    exported = [n for n in elf.symbols(".dynsym", ".dynstr") if "__dtrace" in n or "$dtrace" in n]
    if exported:
        yield f"exports {exported}"
    if any(kind == PT_GNU_STACK and flags & X for kind, flags, *_ in elf.segments):
        yield "the stack is executable"
    undefined = [n for n, (_, section, binding, _) in elf.symbols().items()
                 if "__dtrace" in n and section == 0 and binding == 1]
    if undefined:
        yield f"undefined {undefined}"
