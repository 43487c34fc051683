"""Reads DOF from linked ELF files, for tests. Follows docs/formats/dof.md and uses no code of ours, so that
it shares no mistake with the decoder in src/dof. Trusts the file, and reads DOFREL only."""
import pathlib
import re
import struct
import sys
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "sdt"))

from notes import Elf  # noqa: E402

STRTAB, PROBES, RELTAB, URELHDR, PROVIDER, PROFFS, PRENOFFS, SEMAPHORES = 8, 16, 10, 12, 15, 18, 26, 0x76747273
DOFREL = 2
PT_LOAD, PT_GNU_STACK, PT_GNU_PROPERTY = 1, 0x6474E551, 0x6474E553
X, W = 1, 2
RELA, REL, RELR = 4, 9, 19
AARCH64 = 183


@dataclass(frozen=True, order=True)
class Site:
    provider: str
    probe: str
    address: int
    function: str
    enabled: bool = False  # a question, not a fire
    types: tuple = ()


class LinkedElf(Elf):
    """What a linker made: its segments, its dynamic relocations, its DOF and the sites that it names."""

    def __init__(self, path):
        super().__init__(path)
        self.path = path
        self.machine, = self.unpack("H", 0x12)
        phoff, = self.unpack(self.word, 0x20 if self.wide else 0x1C)
        entry, count = self.unpack("HH", 0x36 if self.wide else 0x2A)
        self.segments = []
        for at in range(phoff, phoff + entry * count, entry):
            if self.wide:
                kind, flags, offset, address, _, size, memory = self.unpack("IIQQQQQ", at)
            else:
                kind, offset, address, _, size, memory, flags = self.unpack("IIIIIII", at)
            self.segments.append((kind, flags, offset, address, size, memory))

    def loads(self):
        return [s for s in self.segments if s[0] == PT_LOAD]

    def file_offset(self, address):
        for _, _, offset, start, size, _ in self.loads():
            if start <= address < start + size:
                return offset + address - start
        raise AssertionError(f"{address:#x} is not in the file")

    def executable(self, address):
        return any(flags & X and start <= address < start + size
                   for _, flags, _, start, size, _ in self.loads())

    def code(self, address, size):
        at = self.file_offset(address)
        return self.data[at:at + size]

    def dof_range(self):
        """[first, last) addresses of .SUNW_dof, by its section or, without one, by the magic."""
        sections = self.all(".SUNW_dof")
        if sections:
            section, = sections
            return section.address, section.address + section.size
        for _, _, offset, address, size, _ in self.loads():
            for found in re.finditer(b"\x7fDOF", self.data[offset:offset + size]):
                if (address + found.start()) % 8 == 0:
                    return address + found.start(), address + size
        return 0, 0

    def dynamic_relocations(self):
        """Addresses that the dynamic linker writes to."""
        word = 8 if self.wide else 4
        for section in self.sections:
            if section.kind in (RELA, REL) and section.flags & 2:
                entry = (3 if section.kind == RELA else 2) * word
                for at in range(section.offset, section.offset + section.size, entry):
                    yield self.unpack(self.word, at)[0]
            elif section.kind == RELR:
                next_address = 0
                for at in range(section.offset, section.offset + section.size, word):
                    value, = self.unpack(self.word, at)
                    if value & 1 == 0:
                        yield value
                        next_address = value + word
                        continue
                    for bit in range(1, word * 8):
                        if value >> bit & 1:
                            yield next_address + (bit - 1) * word
                    next_address += (word * 8 - 1) * word

    def objects(self):
        """(address, file offset) of each DOF."""
        first, last = self.dof_range()
        address = first
        while address + 64 <= last:
            at = self.file_offset(address)
            if self.data[at:at + 4] != b"\x7fDOF":
                if self.data[at:at + 8].strip(b"\0"):
                    return
                address += 8
                continue
            yield address, at
            address += (self.unpack("Q", at + 48)[0] + 7) // 8 * 8

    def sites(self):
        """All sites that were not discarded by the linker, sorted."""
        return sorted(site for address, at in self.objects() for site in self._sites(address, at))

    def versions(self):
        return [self.data[at + 6] for _, at in self.objects()]

    def _headers(self, at):
        secsize, count, secoff = self.unpack("IIQ", at + 24)
        return [self.unpack("IIIIQQ", at + secoff + i * secsize) for i in range(count)]

    def _place(self, dof, header, offset):
        """An address that a word gives relative to itself; 0: none."""
        at = self.file_offset(dof) + header[4] + offset
        word = self.unpack("Q", at)[0]
        if word == 0:
            return 0
        value = word + dof + header[4] + offset
        return value % 2**64 if self.wide else value % 2**32

    def _sites(self, dof, at):
        headers = self._headers(at)
        relocated = set()
        for header in headers:
            if header[0] == URELHDR:
                _, table, target = self.unpack("III", at + header[4])
                start, size = headers[table][4:6]
                for r in range(at + start, at + start + size, 24):
                    _, kind, offset, data = self.unpack("IIQQ", r)
                    assert kind == DOFREL and data == 0, f"relocation of type {kind}"
                    relocated.add((target, offset))
        for header in headers:
            if header[0] != PROVIDER:
                continue
            strings, probes, _, offsets, name, *_, enabled = self.unpack("11I", at + header[4])

            def text(offset):
                return self.text(at + headers[strings][4] + offset)

            for record in range(0, headers[probes][5], 48):
                assert (probes, record) in relocated, "a record without a relocation"
                _, function, probe, native, _, _, index = self.unpack("QIIIIII", at + headers[probes][4] + record)
                nargc, _, count, enabled_index, enabled_count = self.unpack("BBHIH",
                                                                            at + headers[probes][4] + record + 32)
                base = self._place(dof, headers[probes], record)
                if base in (0, dof):
                    continue  # its function was discarded
                types = []
                for _ in range(nargc):
                    types.append(text(native))
                    native += len(types[-1]) + 1
                for table, first, number, question in ((offsets, index, count, False),
                                                       (enabled, enabled_index, enabled_count, True)):
                    for i in range(first, first + number):
                        offset, = self.unpack("I", at + headers[table][4] + 4 * i)
                        place = (base + offset) % (2**64 if self.wide else 2**32)
                        yield Site(text(name), text(probe), place, text(function), question, tuple(types))

    def semaphores(self):
        """{(provider, probe): address}"""
        found = {}
        for dof, at in self.objects():
            headers = self._headers(at)
            for header in headers:
                if header[0] != SEMAPHORES:
                    continue
                for offset in range(0, header[5], 16):
                    provider, name = self.unpack("II", at + header[4] + offset + 8)
                    strings, _, _, _, called = self.unpack("5I", at + headers[provider][4])
                    names = at + headers[strings][4]
                    found[self.text(names + called), self.text(names + name)] = self._place(dof, header, offset)
        return found

    def labels(self, prefix="here_"):
        """[("provider_probe", address)] of the assembler labels `here_<provider>_<probe>_<number>`, each right
        behind a macro."""
        found = []
        table, = self.all(".symtab")
        strings, = self.all(".strtab")
        for at in range(table.offset, table.offset + table.size, 24 if self.wide else 16):
            if self.wide:
                name, _, _, section, value, _ = self.unpack("IBBHQQ", at)
            else:
                name, value, _, _, _, section = self.unpack("IIIBBH", at)
            text = self.text(strings.offset + name)
            if text.startswith(prefix) and section != 0:
                found.append((text[len(prefix):].rsplit("_", 1)[0].replace("__", "-"), value))
        return sorted(found)
