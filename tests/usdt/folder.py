"""A folder, and what compiles and links in it, for tests that make one small program after another."""
import concurrent.futures
import json
import os
import pathlib

from checks import is_stub, sound, wrong_places
from dof import LinkedElf
from step import HERE, MACHINES, VITRINE, cases, header, link_step, linker, run

NATIVE = MACHINES["x86_64"]
FILES = HERE / "cases"


class Folder:
    def __init__(self, path, machine=NATIVE):
        self.path = pathlib.Path(path)
        self.path.mkdir(exist_ok=True, parents=True)
        self.machine = machine
        header(FILES / "probes.d", self.path)

    def compile(self, source, *flags, compiler="gcc", name=None):
        target = self.path / f"{name or pathlib.Path(source).stem}.o"
        run(*self.machine.compiler(compiler), "-Wall", "-Wextra", *flags, f"-I{self.path}", "-c", FILES / source,
            "-o", target)
        return target

    def step(self, *objects, definition=FILES / "probes.d", output="probes.o"):
        return link_step(definition, self.path / output, objects)

    def link(self, name, *arguments, ld="bfd", compiler="gcc"):
        path = self.path / name
        run(*self.machine.compiler(compiler), *linker(self.path, self.machine, ld), *arguments, "-o", path)
        return path

    def good(self, path, said=None, labels=True, runner=()):
        """Checks a linked file, and runs it where `said` says what it should say: its sites."""
        elf = LinkedElf(path)
        sites = elf.sites()
        problems = list(sound(elf))
        if labels:
            problems += wrong_places(elf, self.machine, elf.labels(), sites)
        problems += [f"{s} is not in code" for s in sites if not elf.executable(s.address)]
        assert not problems, "\n".join(problems)
        if said is not None:
            told = run(*runner, path)
            assert told == said, f"says {told!r}, not {said!r}"
        return sites


def names(sites):
    """The probes of sites that are where the source has them: not in stubs."""
    return sorted({s.probe for s in sites if not is_stub(s)})


class Running:
    """Cases, as many at once as there are processors, each in a folder of its own."""

    def __init__(self, place, only):
        self.place, self.only = pathlib.Path(place), only
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self.started = []

    def case(self, name, function, *arguments, machine=NATIVE):
        """Runs function(folder, *arguments), if the case was asked for."""
        if self.only and not any(word in name for word in self.only):
            return
        path = self.place / f"case{len(self.started)}"
        self.started.append((name, self.pool.submit(lambda: function(Folder(path, machine), *arguments))))

    def done(self):
        """Waits for all, and says what failed: the exit status of the test."""
        with self.pool:
            return cases(lambda: [(name, done.result) for name, done in self.started])


def shown(path):
    """The sites that `vitrine probes` shows, questions too: sorted (provider, probe, address)."""
    lines = [json.loads(line) for line in run(VITRINE, "probes", "--json", path).splitlines()]
    return sorted((p["provider"], p["name"], int(s["address"], 16))
                  for p in lines for s in p["sites"] + p.get("enabled_sites", []))
