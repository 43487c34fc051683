"""pprof and OTLP files that are small, and cost a reader much that takes them at their word."""
import gzip
import multiprocessing


def _varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _number(field, number):
    return _varint(field << 3) + _varint(number)


def _bytes(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _strings(*texts):
    return b"".join(_bytes(6, text) for text in (b"", *texts))


# A sample type of pprof: CPU time, if the first strings are these two.
_CPU = _bytes(1, _number(1, 1) + _number(2, 2))
_NAMES = (b"cpu", b"nanoseconds")


def long_type():
    """Each of 64 sample types has the same name of 32 MiB, which an error could print."""
    return _bytes(1, _number(1, 1) + _number(2, 1)) * 64 + _strings(b"t" * (32 << 20))


def long_thread_name():
    """Each of 4,000 samples is of a thread with the same name of 1 MiB."""
    sample = _bytes(2, _bytes(2, _varint(1)) + _bytes(3, _number(1, 3) + _number(2, 4)))
    return _CPU + sample * 4000 + _strings(*_NAMES, b"thread_name", b"n" * (1 << 20))


def labels_backwards():
    """Samples of 4,096 labels each, whose keys come in descending order; no two samples are equal."""
    keys = [b"%x" % n for n in range(0xfff, -1, -1)]
    labels = b"".join(_bytes(3, _number(1, 3 + n) + _number(3, 1)) for n in range(1, len(keys)))
    samples = b"".join(_bytes(2, _bytes(2, _varint(1)) + _bytes(3, _number(1, 3) + _number(3, n)) + labels)
                       for n in range(1, 200))
    return _CPU + samples + _strings(*_NAMES, *keys)


def labels_of_nothing():
    """Samples of 4,096 labels each that have no key; no two samples are equal: 57 MB."""
    labels = _bytes(3, b"") * 4095
    samples = b"".join(_bytes(2, _bytes(2, _varint(1)) + _bytes(3, _number(3, n)) + labels)
                       for n in range(1, 7000))
    return _CPU + samples + _strings(*_NAMES)


def stack_without_end():
    """OTLP: one stack of 100 million frames."""
    strings = b"".join(_bytes(5, text) for text in (b"", *_NAMES))
    location = _bytes(2, b"")
    stack = _bytes(7, b"") + _bytes(7, _bytes(1, b"\1" * 100_000_000))
    return _bytes(2, location * 2 + strings + stack)


def tables_of_nothing():
    """4 million locations and as many functions, all empty: 10 KB, compressed."""
    return _CPU + _bytes(4, b"") * 4_000_000 + _bytes(5, b"") * 4_000_000 + _strings(*_NAMES)


# name: (what makes it, whether it can be read)
PROFILES = {
    "profile of long types": (long_type, False),
    "profile of long thread names": (long_thread_name, False),
    "profile of labels backwards": (labels_backwards, True),
    "profile of labels of nothing": (labels_of_nothing, True),
    "profile of a stack without end": (stack_without_end, False),
    "profile of tables of nothing": (tables_of_nothing, False),
}


def write_profile(name, path):
    """In a process of its own: what a process had is counted as its children's, too, until they are other programs."""
    writer = multiprocessing.get_context("spawn").Process(target=_write_profile, args=(name, path))
    writer.start()
    writer.join()
    assert writer.exitcode == 0, name


def _write_profile(name, path):
    with open(path, "wb") as file:
        file.write(gzip.compress(PROFILES[name][0](), 1))
