"""Files that are forged: each a copy of libhostile_forged.so in which one thing lies. A process maps
each of them (targets/forged.c)."""
import json
import lzma
import os
import struct
import subprocess
import sys
import zlib

HUGE = (1 << 64) - 1
EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
SHDR = struct.Struct("<IIQQQQIIQQ")
PHDR = struct.Struct("<IIQQQQQQ")
SYM = struct.Struct("<IBBHQQ")
COMPRESSED = 0x800
ZLIB, ZSTD = 1, 2


class Elf:
    """The bytes of the file, and where its sections are."""

    def __init__(self, whole):
        self.bytes = bytearray(whole)
        header = EHDR.unpack_from(whole)
        self.phoff, self.shoff, self.phnum, self.shnum = header[5], header[6], header[10], header[12]
        sections = [list(SHDR.unpack_from(whole, self.shoff + 64 * i)) for i in range(self.shnum)]
        names = sections[header[13]][4]
        self.index = {}
        for i, section in enumerate(sections):
            begin = names + section[0]
            self.index[whole[begin:whole.index(b"\0", begin)].decode()] = i
        self.sections = sections

    def place(self, name):
        """Where the section is, and of what size."""
        section = self.sections[self.index[name]]
        return section[4], section[5]

    def content(self, name):
        offset, size = self.place(name)
        return bytes(self.bytes[offset:offset + size])

    def entry(self, name):
        """Where in the file a function of .symtab is, which is also its address."""
        offset, size = self.place(".symtab")
        strings = self.content(".strtab")
        for at in range(offset, offset + size, SYM.size):
            symbol = SYM.unpack_from(self.bytes, at)
            if strings[symbol[0]:].split(b"\0")[0] == name.encode():
                return symbol[4]
        raise KeyError(name)

    def set_header(self, **fields):
        names = ["ident", "type", "machine", "version", "entry", "phoff", "shoff", "flags", "ehsize",
                 "phentsize", "phnum", "shentsize", "shnum", "shstrndx"]
        header = list(EHDR.unpack_from(self.bytes))
        for name, value in fields.items():
            header[names.index(name)] = value
        EHDR.pack_into(self.bytes, 0, *header)

    def set_section(self, which, **fields):
        names = ["name", "type", "flags", "addr", "offset", "size", "link", "info", "addralign", "entsize"]
        section = self.sections[self.index[which]]
        for field, value in fields.items():
            section[names.index(field)] = value
        SHDR.pack_into(self.bytes, self.shoff + 64 * self.index[which], *section)

    def rename(self, old, new):
        """A section by a name of no more characters."""
        begin = self.place(".shstrtab")[0] + self.sections[self.index[old]][0]
        self.bytes[begin:begin + len(old) + 1] = new.encode().ljust(len(old) + 1, b"\0")
        self.index[new] = self.index.pop(old)

    def replace(self, name, content, **fields):
        """The section's content, at the end of the file."""
        self.bytes += bytes(-len(self.bytes) % 16)
        offset = len(self.bytes)
        self.bytes += content
        self.set_section(name, offset=offset, size=len(content), **fields)

    def put(self, name, at, content):
        """Over what a section has there."""
        begin = self.place(name)[0] + at
        self.bytes[begin:begin + len(content)] = content


def uleb(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def sections_beyond(elf):
    elf.set_header(shoff=HUGE - 63, shnum=0xffff)


def sections_extended(elf):
    """shnum 0: the number is the size of the first section."""
    SHDR.pack_into(elf.bytes, elf.shoff, 0, 0, 0, 0, 0, 1 << 60, 0xfffffffe, 0, 0, 0)
    elf.set_header(shnum=0, shstrndx=0xffff)


def sections_overlap(elf):
    """All are the whole file, and of one name."""
    for name in elf.index:
        elf.set_section(name, offset=0, size=len(elf.bytes), name=1)


def section_names_wild(elf):
    for i, name in enumerate(elf.index):
        elf.set_section(name, name=(0xffffffff - i) if i % 2 else len(elf.content(".shstrtab")) - 1)


def segments_overlap(elf):
    for i in range(elf.phnum):
        PHDR.pack_into(elf.bytes, elf.phoff + 56 * i, 1, 7, i * 16, HUGE - (1 << i), 0, HUGE >> i % 3,
                       1 << 63, (0, 3, 1 << 63)[i % 3])


def segments_many(elf):
    elf.bytes += b"".join(PHDR.pack(4, 7, i, i, i, 1 << 40, 1 << 40, i) for i in range(65000))
    elf.set_header(phoff=len(elf.bytes) - 56 * 65000, phnum=65000)


def symbols_without_size(elf):
    for name in (".symtab", ".dynsym"):
        elf.set_section(name, entsize=0, size=1 << 44, link=0xffff)


def symbols_overlap(elf):
    """300,000 functions, each of which is all of the file, with names that end nowhere."""
    strings = elf.content(".strtab") + b"n" * 70000
    start = len(strings) - 70000
    elf.replace(".strtab", strings)
    elf.replace(".symtab", b"".join(
        SYM.pack(start + i % 60000, 2 | 1 << 4, 0, 7, i % 4096, HUGE - i if i % 2 else 1 << 20)
        for i in range(300000)))


def symbols_thread_local(elf):
    for i in range(elf.place(".symtab")[1] // SYM.size):
        at = elf.place(".symtab")[0] + i * SYM.size
        name = SYM.unpack_from(elf.bytes, at)[0]
        SYM.pack_into(elf.bytes, at, name, 6 | 1 << 4, 0, 12, HUGE - 7 * i, 1 << 63)


def tls_wild(elf):
    for i in range(elf.phnum):
        at = elf.phoff + 56 * i
        if struct.unpack_from("<I", elf.bytes, at)[0] == 7:
            PHDR.pack_into(elf.bytes, at, 7, 4, HUGE, HUGE, 0, HUGE, 1 << 63, 3)


def build_id_endless(elf):
    elf.put(".note.gnu.build-id", 0, struct.pack("<III", 4, 0xfffffff0, 3))


def build_id_long(elf):
    note = struct.pack("<III", 4, 1 << 20, 3) + b"GNU\0" + b"\x1b" * (1 << 20)
    elf.replace(".note.gnu.build-id", note * 3)


def notes_wrap(elf):
    lies = b"".join(struct.pack("<III", 0xffffffff - i, 0xffffffff, 3) for i in range(100))
    elf.replace(".note.stapsdt", lies, addralign=1 << 63)


def notes_compressed(elf):
    content = elf.content(".note.stapsdt")
    elf.replace(".note.stapsdt", struct.pack("<IIQQ", ZLIB, 0, len(content), 4) + zlib.compress(content),
                flags=COMPRESSED)


def typed_notes_mutated(elf):
    note = elf.content(".note.vitrine.probes")
    copies = bytearray()
    for i in range(len(note)):
        changed = bytearray(note)
        changed[i] ^= 1 << i % 8
        copies += changed
        copies[-len(note) + i] = 0xff if i % 3 == 0 else copies[-len(note) + i]
    elf.replace(".note.vitrine.probes", bytes(copies))


def typed_notes_many(elf):
    elf.replace(".note.vitrine.probes", elf.content(".note.vitrine.probes") * 20000)


def compressed_size_lies(elf):
    for i, name in enumerate((".debug_info", ".debug_abbrev", ".debug_line", ".debug_str")):
        content = zlib.compress(elf.content(name))
        elf.replace(name, struct.pack("<IIQQ", ZLIB, 0, (HUGE, 1 << 40, 0, 3)[i], 1) + content,
                    flags=COMPRESSED)


def zlib_bomb(elf):
    """512 MiB of one byte, in 512 KiB, and said to be 4 GiB."""
    pack = zlib.compressobj(1)
    block, out = bytes(16 << 20), []
    for _ in range(32):
        out.append(pack.compress(block))
    out.append(pack.flush())
    for name in (".debug_info", ".debug_str", ".debug_line"):
        elf.replace(name, struct.pack("<IIQQ", ZLIB, 0, 4 << 30, 1) + b"".join(out), flags=COMPRESSED)


def compressed_by_nobody(elf):
    for i, name in enumerate((".debug_info", ".debug_abbrev", ".debug_line", ".debug_str")):
        elf.replace(name, struct.pack("<IIQQ", (ZSTD, 0, 0x6fffffff, ZSTD)[i], 0, 1 << 20, HUGE) +
                    b"\x28\xb5\x2f\xfd" + b"\xff" * 100, flags=COMPRESSED)


def without_symbols(elf):
    for name in (".symtab", ".debug_info"):
        elf.set_section(name, type=8, size=0)


def minidebuginfo(elf, content):
    without_symbols(elf)
    elf.rename(".debug_loclists", ".gnu_debugdata")
    elf.replace(".gnu_debugdata", content)


def xz_bomb(elf):
    """100 streams of 64 MiB each."""
    minidebuginfo(elf, lzma.compress(bytes(64 << 20), preset=0) * 100)


def xz_bomb_elf(elf):
    """A file whose symbols are 400 MiB of the same one."""
    inner = Elf(bytes(elf.bytes))
    symbols = SYM.pack(1, 2, 0, 7, 0x1000, 64) * ((64 << 20) // SYM.size)
    inner.replace(".symtab", symbols)
    for name in (".debug_info", ".debug_line", ".debug_str"):
        inner.set_section(name, offset=0, size=len(inner.bytes))
    minidebuginfo(elf, lzma.compress(bytes(inner.bytes), preset=0))


def xz_dictionary(elf):
    """It asks for a dictionary of 4 GiB."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
    content = bytearray(lzma.compress(elf.bytes, filters=filters))
    content[16] = 40  # the properties of LZMA2 in the header of the block
    content[20:24] = struct.pack("<I", zlib.crc32(bytes(content[12:20])))
    minidebuginfo(elf, bytes(content))


def xz_nested(elf):
    """In its mini debug info there is mini debug info, eight deep."""
    inner = bytes(elf.bytes)
    for _ in range(8):
        around = Elf(bytes(elf.bytes))
        minidebuginfo(around, lzma.compress(inner, preset=0))
        inner = bytes(around.bytes)
    elf.bytes[:] = inner


def debug_link(elf, name):
    without_symbols(elf)
    elf.rename(".debug_loclists", ".gnu_debuglink")
    content = name + b"\0"
    elf.replace(".gnu_debuglink", content + bytes(-len(content) % 4) + struct.pack("<I", 1))


def debug_link_to_itself(elf):
    debug_link(elf, b"debug-link-to-itself.so")


def debug_link_upwards(elf):
    debug_link(elf, b"../../../../../../../../dev/zero")


def debug_link_long(elf):
    without_symbols(elf)
    elf.rename(".debug_loclists", ".gnu_debuglink")
    elf.replace(".gnu_debuglink", b"/" * (1 << 20))


def alternative_link(elf):
    elf.rename(".debug_loclists", ".gnu_debugaltlin")
    elf.replace(".gnu_debugaltlin", b"/dev/zero\0" + bytes(20))
    elf.rename(".debug_line_str", ".debug_sup")
    elf.replace(".debug_sup", b"\x05\0\0/proc/self/mem\0\x14" + bytes(20))


def frame_table_wild(elf):
    count = 0xffffffff
    elf.put(".eh_frame_hdr", 0, bytes([1, 0x1b, 0x03, 0x3b]) + struct.pack("<iI", -(1 << 31), count))


def frame_table_unsorted(elf):
    table = struct.pack("<BBBBiI", 1, 0x1b, 0x03, 0x3b, 40, 50000)
    table += b"".join(struct.pack("<ii", (i * 7919) % 9000 - 4000, -i) for i in range(50000))
    elf.replace(".eh_frame_hdr", table)


def frame_augmentation(elf):
    """A string of 1 MiB, and data of 2^63 bytes."""
    text = b"z" + b"PLRSB" * 200000 + b"\0"
    body = struct.pack("<IB", 0, 1) + text + b"\x01\x78\x10" + uleb(1 << 63) + bytes(64)
    elf.replace(".eh_frame", struct.pack("<I", len(body)) + body + elf.content(".eh_frame"))


def frame_entries_circle(elf):
    """Each entry is said to be described by an entry that is not one, or by itself."""
    out = b""
    for i in range(20000):
        out += struct.pack("<IIiII", 16, (4, 1, 0x7fffffff, len(out) + 4)[i % 4], 0x1000 - i, 1 << 30, 0)
    elf.replace(".eh_frame", out)


def frame_expressions(elf):
    """Rules that take 2^20 steps each, in 64 KiB of one entry."""
    cie = struct.pack("<IB", 0, 1) + b"zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01" + bytes(2)
    out = struct.pack("<I", len(cie)) + cie
    steps = b"\x31" + b"\x12" * 30000 + b"\x22" * 30000
    program = b"\x0f" + uleb(len(steps)) + steps + b"\x16\x10" + uleb(len(steps)) + steps
    body = struct.pack("<Iii", len(out) + 4, 0, 0x3000) + b"\0" + program
    body += bytes(-len(body) % 4)
    elf.replace(".eh_frame", out + struct.pack("<I", len(body)) + body)


def debug_frame_wide(elf):
    """The only call frame information is of 64-bit DWARF with lengths that wrap."""
    elf.set_section(".eh_frame", size=0)
    elf.set_section(".eh_frame_hdr", size=0)
    elf.rename(".debug_loclists", ".debug_frame")
    elf.replace(".debug_frame", b"".join(
        struct.pack("<IQQ", 0xffffffff, HUGE - 4 * i, HUGE) for i in range(1000)))


def dwarf_units(elf):
    """100,000 units of nothing, and one that is longer than all."""
    unit = struct.pack("<IHBBI", 8, 5, 1, 8, 0)
    elf.replace(".debug_info", unit * 100000 + struct.pack("<IHBBI", 0xffffffef, 5, 1, 8, 0))


def abbreviations(elf, codes):
    elf.replace(".debug_abbrev", codes)


def dwarf_deep(elf):
    """Blocks in blocks: half a million deep."""
    abbreviations(elf, b"\x01\x11\x01\0\0\x02\x2e\x01\x11\x01\x12\x06\0\0\0")
    entry = b"\x02" + struct.pack("<QI", 0x1000, 0x1000)
    body = struct.pack("<HBBI", 5, 1, 8, 0) + b"\x01" + entry * 500000
    elf.replace(".debug_info", struct.pack("<I", len(body)) + body)


def dwarf_circle(elf):
    """Functions whose origin is each other, and siblings that lie before them."""
    abbreviations(elf, b"\x01\x11\x01\0\0\x02\x2e\x01\x31\x13\x01\x13\x11\x01\x12\x06\0\0\0")
    body = struct.pack("<HBBI", 5, 1, 8, 0) + b"\x01"
    for i in range(5000):
        at = 4 + len(body)
        body += b"\x02" + struct.pack("<IIQI", at + (21 if i % 2 == 0 else -21 if i else 0), 13, 0x1000, 0x1000)
    elf.replace(".debug_info", struct.pack("<I", len(body)) + body)


def dwarf_abbreviations(elf):
    """A table without an end, of codes that are all the same, with forms that there are not."""
    abbreviations(elf, b"\x01\x11\x01\x03\x7f\x10\x16\x11\x21\0\0" * 100000)


def line_program(elf, program, count=1, line_range=14, opcode_base=13, minimum=1):
    head = bytes([minimum, count, 1, 0xfb, line_range, opcode_base]) + bytes(
        [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
    head += b"\x01\x01\x08" + uleb(1) + b".\0" + b"\x02\x01\x08\x02\x0b" + uleb(1) + b"f.c\0\0"
    body = struct.pack("<HBBI", 5, 8, 0, len(head)) + head + program
    elf.replace(".debug_line", struct.pack("<I", len(body)) + body)


def lines_endless(elf):
    """Four million rows, of one byte each."""
    line_program(elf, b"\x00\x09\x02" + struct.pack("<Q", 0x1000) + b"\x14" * (4 << 20))


def lines_by_zero(elf):
    line_program(elf, b"\x00\x09\x02" + struct.pack("<Q", 0x1000) + b"\xff" * 1000, 0, 0, 1, 0)


def lines_files(elf):
    """A table of 2^63 files and directories."""
    head = bytes([1, 1, 1, 0xfb, 14, 13]) + bytes(12) + b"\x01\x01\x08" + uleb(1 << 63)
    body = struct.pack("<HBBI", 5, 8, 0, len(head)) + head
    elf.replace(".debug_line", struct.pack("<I", len(body)) + body)


def strings_endless(elf):
    for name in (".debug_str", ".debug_line_str", ".strtab", ".dynstr"):
        elf.replace(name, b"s" * (2 << 20))


def other_class(elf):
    elf.bytes[4] = 1  # 32 bits


def other_order(elf):
    elf.bytes[5] = 2  # big end first


def other_kind(elf):
    elf.set_header(type=4, machine=0xfff3, version=99, ehsize=HUGE & 0xffff, phentsize=1, shentsize=1)


def cut(elf):
    """The process cuts the file after it was mapped: SIGBUS for whoever maps the rest."""
    del elf


def sparse(elf):
    """1 TiB, and its sections are at the end."""
    headers = bytes(elf.bytes[elf.shoff:])
    elf.set_header(shoff=(1 << 40) - len(headers))
    elf.tail = headers


FORGERIES = {
    "sections-beyond": sections_beyond, "sections-extended": sections_extended,
    "sections-overlap": sections_overlap, "section-names-wild": section_names_wild,
    "segments-overlap": segments_overlap, "segments-many": segments_many,
    "symbols-without-size": symbols_without_size, "symbols-overlap": symbols_overlap,
    "symbols-thread-local": symbols_thread_local, "tls-segment-wild": tls_wild,
    "build-id-endless": build_id_endless, "build-id-long": build_id_long, "notes-wrap": notes_wrap,
    "notes-compressed": notes_compressed, "typed-notes-mutated": typed_notes_mutated,
    "typed-notes-many": typed_notes_many, "compressed-size-lies": compressed_size_lies,
    "zlib-bomb": zlib_bomb, "compressed-by-nobody": compressed_by_nobody, "xz-bomb": xz_bomb,
    "xz-bomb-of-symbols": xz_bomb_elf, "xz-dictionary": xz_dictionary, "xz-nested": xz_nested,
    "debug-link-to-itself": debug_link_to_itself, "debug-link-upwards": debug_link_upwards,
    "debug-link-long": debug_link_long, "alternative-link": alternative_link,
    "frame-table-wild": frame_table_wild, "frame-table-unsorted": frame_table_unsorted,
    "frame-augmentation": frame_augmentation, "frame-entries-circle": frame_entries_circle,
    "frame-expressions": frame_expressions, "debug-frame-wide": debug_frame_wide,
    "dwarf-units": dwarf_units, "dwarf-deep": dwarf_deep, "dwarf-circle": dwarf_circle,
    "dwarf-abbreviations": dwarf_abbreviations, "lines-endless": lines_endless,
    "lines-by-zero": lines_by_zero, "lines-files": lines_files, "strings-endless": strings_endless,
    "other-class": other_class, "other-order": other_order, "other-kind": other_kind, "file-cut": cut,
    "file-sparse": sparse,
}


def forge(name, library, directory):
    """The environment of a process that maps the forged file."""
    with open(library, "rb") as file:
        elf = Elf(file.read())
    environment = {"HOSTILE_ENTRY": str(elf.entry("hostile_spin")),
                   "HOSTILE_DYNAMIC": str(elf.place(".dynamic")[0])}
    FORGERIES[name](elf)
    path = os.path.join(directory, f"{name}.so")
    with open(path, "wb") as file:
        file.write(elf.bytes)
        if hasattr(elf, "tail"):
            file.seek((1 << 40) - len(elf.tail))
            file.write(elf.tail)
    if name == "file-cut":
        environment["HOSTILE_CUT"] = "9000"
    return dict(environment, HOSTILE_FILE=path)


def forge_apart(name, library, directory):
    """forge() in a process of its own: what it takes of memory would count for the commands that start later, whose
    largest resident set begins with that of the process that started them (wait4(2))."""
    done = subprocess.run([sys.executable, __file__, name, library, directory], check=True, capture_output=True,
                          text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(forge(*sys.argv[1:])))
