#!/usr/bin/env python3
"""Calls of probes in every form that compilers give them, and what link-time optimisation makes of them.

usage: forms.py SOURCE_ROOT VITRINE [WORD IN THE NAME OF A CASE…]
"""
import itertools
import sys
import tempfile

from checks import is_stub
from folder import NATIVE, Running, names
from live import trace
from step import LINKERS, MACHINES, run

SAID = "direct 1\ntail 2\nasked 0 0\n"
FIRES = [("cases:live", [1]), ("cases:other", [2]), ("cases:done", [4]), ("cases:start", [5])]


def plain_declarations(folder, compiler, level, code, mode, linkers):
    """Direct, tail and conditional calls, through the GOT, by address: each ends at a site."""
    forms = folder.compile("forms.c", level, *code, compiler=compiler)
    probes = folder.step(forms)
    runner = folder.machine.runner(mode)
    for ld in linkers:
        path = folder.link(f"forms-{ld}", f"-{mode}", forms, probes, ld=ld)
        sites = folder.good(path, said=SAID, labels=False, runner=runner)
        assert {s.probe for s in sites} >= {"live", "other", "done", "start", "tick"}, sites
        assert any(s.enabled for s in sites), sites
    if folder.machine is NATIVE:
        events, said = trace(path, [path], "cases:live", "cases:other", "cases:done", "cases:start")
        fires = [(e["probe"], e["args"]) for e in events]
        assert fires == FIRES and "\n".join(said) + "\n" == SAID, f"{fires} {said}"


def assembler(folder, ld):
    """A caller that nothing calls a function."""
    live = folder.compile("live.c", "-O2", "-DCALL=from_assembler")
    caller = folder.compile("caller.S")
    path = folder.link("assembler", "-static", live, caller, folder.step(live, caller), ld=ld)
    sites = folder.good(path, said="live 1\n", runner=folder.machine.runner("static"))
    assert ("other", "from_assembler") in {(s.probe, s.function) for s in sites}, sites


def other_names(folder, ld, mode):
    code = [] if mode == "no-pie" else ["-fPIE"]
    weak, strong = folder.compile("weak.c", "-O2", *code), folder.compile("strong.c", "-O2", *code)
    path = folder.link("names", f"-{mode}", weak, strong, folder.step(weak, strong), ld=ld)
    sites = folder.good(path, said="1 2 3 4\n")
    assert names(sites) == ["dead", "done", "live", "start", "tick"], sites


def optimised_at_link(folder, compiler, option, ld):
    """The step cannot see the calls: they end in stubs, which are sites."""
    live = folder.compile("live.c", "-O2", option, "-DNO_LABELS", "-DCALL=main_other", compiler=compiler)
    other = folder.compile("main_other.c", "-O2", option, "-DNO_LABELS", compiler=compiler)
    probes = folder.step(live, other)
    path = folder.link("optimised", "-O2", option, live, other, probes, ld=ld, compiler=compiler)
    sites = folder.good(path, said="live 1\nother 2\n")
    assert {s.probe for s in sites if is_stub(s)} >= {"live", "other"}, sites
    fires = [(e["probe"], e["args"]) for e in trace(path, [path], "cases:*")[0]]
    assert fires == [("cases:live", [1]), ("cases:other", [2])], fires


def kept_markings(folder, flag, marking, ld):
    """Control-flow protection is of the whole file, or of none of it. Some linkers keep none (gold and mold, on
    aarch64): without probes they show so."""
    def marked(name, *objects):
        path = folder.link(name, "-shared", "-nostdlib", *objects, ld=ld)
        return path, marking in run(f"{folder.machine.prefix}readelf", "-n", path)

    other = folder.compile("other.c", "-O2", "-fPIC", flag)
    path, kept = marked("marked.so", other, folder.step(other))
    folder.good(path)
    _, possible = marked("control.so", folder.compile("other.c", "-O2", "-fPIC", flag, "-D_DTRACE_VERSION=0"))
    assert kept == possible, f"with probes {kept}, without {possible}"
    assert possible or ld in ("gold", "mold"), "not marked without probes, either"
    if not possible:
        print(f"    {marking}: {folder.machine.name} {ld} keeps no such markings")


def main():
    with tempfile.TemporaryDirectory() as place:
        running = Running(place, sys.argv[3:])
        case = running.case
        for compiler, level in itertools.product(("gcc", "clang"), ("-O0", "-O2", "-Os")):
            for code, mode in ((["-fPIE"], "pie"), (["-fno-pie"], "no-pie"), (["-fPIE", "-fno-plt"], "pie"),
                               (["-fno-pie", "-mcmodel=large"], "no-pie"), (["-fPIC", "-mcmodel=large"], "pie")):
                # gold gives a symbol that gcc's large model reaches by its offset from the GOT a dynamic entry.
                linkers = [ld for ld in LINKERS if ld != "gold" or "-fPIC" not in code]
                case(f"{compiler} {level} {' '.join(code)}", plain_declarations, compiler, level, code, mode, linkers)
            for machine in ("i386", "aarch64"):
                for code in ([], ["-fno-plt", "-fPIE"]):
                    case(f"{machine} {compiler} {level} {' '.join(code)}", plain_declarations, compiler, level, code,
                         "static", LINKERS, machine=MACHINES[machine])
        for ld in LINKERS:
            for machine in MACHINES.values():
                case(f"assembler, {machine.name} {ld}", assembler, ld, machine=machine)
            for mode in ("no-pie", "pie"):
                case(f"weak, alias, ifunc, protected, {mode} {ld}", other_names, ld, mode)
            case(f"IBT and SHSTK, {ld}", kept_markings, "-fcf-protection=full", "IBT, SHSTK", ld)
            case(f"BTI and PAC, {ld}", kept_markings, "-mbranch-protection=standard", "BTI, PAC", ld,
                 machine=MACHINES["aarch64"])
        for compiler, option, ld in (("gcc", "-flto", "bfd"), ("gcc", "-flto", "gold"), ("gcc", "-flto", "mold"),
                                     ("clang", "-flto", "lld"), ("clang", "-flto=thin", "lld")):
            case(f"{compiler} {option} {ld}", optimised_at_link, compiler, option, ld)
        return running.done()


if __name__ == "__main__":
    sys.exit(main())
