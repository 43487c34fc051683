"""Reads probe notes from ELF files, for tests. Follows docs/formats/sdt.md and docs/typed-probes.md
and uses no code of ours, so that it shares no mistake with the decoder in src/probe. Trusts the file."""
import struct
from dataclasses import dataclass, field


@dataclass
class Section:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int


@dataclass
class Probe:
    pc: int
    base: int
    semaphore: int
    provider: str
    name: str
    arguments: str


@dataclass
class Typed:
    pc: int
    provider: str
    name: str
    arguments: list = field(default_factory=list)  # (kind, name, type)


class Elf:
    """A little-endian file of either class."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.wide = self.data[4] == 2
        self.word = "Q" if self.wide else "I"
        shoff, = self.unpack(self.word, 0x28 if self.wide else 0x20)
        entry, count, strings = self.unpack("HHH", 0x3A if self.wide else 0x2E)
        raw = [self.unpack("IIQQQQ" if self.wide else "IIIIII", shoff + i * entry) for i in range(count)]
        names = raw[strings][4]
        self.sections = [Section(self.text(names + r[0]), *r[1:]) for r in raw]

    def unpack(self, form, offset):
        return struct.unpack_from("<" + form, self.data, offset)

    def text(self, offset):
        return self.data[offset:self.data.index(b"\0", offset)].decode()

    def all(self, name):
        return [s for s in self.sections if s.name == name]

    def bytes(self, section):
        return b"" if section.kind == 8 else self.data[section.offset:section.offset + section.size]

    def notes(self, section_name, owner):
        """Yields (type, offset of the description, its size)."""
        for section in self.all(section_name):
            at, end = section.offset, section.offset + section.size
            while at < end:
                namesz, descsz, kind = self.unpack("III", at)
                name = self.data[at + 12:at + 12 + namesz]
                desc = at + 12 + (namesz + 3) // 4 * 4
                assert name == owner.encode() + b"\0", name
                yield kind, desc, descsz
                at = desc + (descsz + 3) // 4 * 4
            assert at == end, f"{section_name}: its last note ends beyond it"

    def probes(self):
        found = []
        for kind, at, size in self.notes(".note.stapsdt", "stapsdt"):
            assert kind == 3
            width = struct.calcsize(self.word)
            numbers = self.unpack(self.word * 3, at)
            strings = self.data[at + 3 * width:at + size].decode().split("\0")
            assert len(strings) == 4 and strings[3] == "", strings
            found.append(Probe(*numbers, *strings[:3]))
        return found

    def typed(self):
        """(probes, enumerators as {type: {value: name}})"""
        probes, enumerators = [], {}
        for kind, at, size in self.notes(".note.vitrine.probes", "vitrine"):
            end = at + size
            if kind == 2:
                value, = self.unpack("q", at)
                strings = self.data[at + 8:end].decode().split("\0")
                assert len(strings) == 3 and strings[2] == ""
                enumerators.setdefault(strings[0], {})[value] = strings[1]
                continue
            assert kind == 1
            pc, count = self.unpack(self.word + "B", at)
            at += struct.calcsize(self.word) + 1

            def string():
                nonlocal at
                text = self.text(at)
                at += len(text.encode()) + 1
                return text

            probe = Typed(pc, string(), string())
            for _ in range(count):
                kind = self.data[at]
                at += 1
                probe.arguments.append((kind, string(), string()))
            assert at == end, "a typed note is longer than its content"
            probes.append(probe)
        return probes, enumerators

    def symbols(self, table=".symtab", strings=".strtab"):
        """{name: (value, section index, binding, visibility)}; none where there is no such table"""
        found = {}
        if not self.all(table):
            return found
        table, = self.all(table)
        strings, = self.all(strings)
        for at in range(table.offset, table.offset + table.size, 24 if self.wide else 16):
            if self.wide:
                name, info, other, section, value, _ = self.unpack("IBBHQQ", at)
            else:
                name, value, _, info, other, section = self.unpack("IIIBBH", at)
            found[self.text(strings.offset + name)] = (value, section, info >> 4, other & 3)
        return found
