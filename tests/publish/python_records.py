#!/usr/bin/env python3
"""Labels of a Python program, by ctypes, as OpenTelemetry thread records that `vitrine` reads from outside.

usage: python_records.py LIBCUSTOMLABELS VITRINE
"""
import ctypes
import json
import os
import subprocess
import sys

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class String(ctypes.Structure):
    _fields_ = [("len", ctypes.c_size_t), ("buf", ctypes.c_char_p)]


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return String(len(data), data)


class Labels:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.custom_labels_new.restype = ctypes.c_void_p
        self.library.custom_labels_set.argtypes = [ctypes.c_void_p, String, String, ctypes.c_void_p]
        self.library.custom_labels_replace.argtypes = [ctypes.c_void_p]
        self.library.custom_labels_free.argtypes = [ctypes.c_void_p]

    def show(self, labels):
        handle = self.library.custom_labels_new(0)
        for key, value in labels.items():
            assert self.library.custom_labels_set(handle, string(key), string(value), None) == 0
        self.library.custom_labels_replace(handle)
        return handle

    def end(self, handle):
        self.library.custom_labels_replace(None)
        self.library.custom_labels_free(handle)


def records(vitrine):
    run = [vitrine, "labels", str(os.getpid()), "--json", "--mode", "ptrace"]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if line["format"] == "otel-thread-ctx-v1"]


def expect(found, labels, trace="0" * 32, span="0" * 16):
    assert len(found) == 1, found
    shown = {label["key"]: label["value"] for label in found[0]["labels"]}
    assert shown == labels, shown
    assert found[0].get("trace_id", "0" * 32) == trace, found
    assert found[0].get("span_id", "0" * 16) == span, found


def main():
    library, vitrine = sys.argv[1:]
    labels = Labels(library)
    handle = labels.show({"tenant": "acme"})
    assert all(not line["labels"] for line in records(vitrine)), "a record that nobody asked for"
    labels.end(handle)

    assert labels.library.custom_labels_publish_thread_context(1) == 0
    handle = labels.show({"tenant": "acme", "trace_id": TRACE, "span_id": SPAN})
    expect(records(vitrine), {"tenant": "acme"}, TRACE, SPAN)
    # A change of the set in force; ids as other writers have them: bytes.
    labels.library.custom_labels_set(handle, string("tenant"), string("globex"), None)
    labels.library.custom_labels_set(handle, string("span_id"), string(bytes.fromhex("00" * 7 + "01")), None)
    expect(records(vitrine), {"tenant": "globex"}, TRACE, "00" * 7 + "01")
    # 16 hex digits are the text of a 64-bit id, as in the decoder of labels: not the bytes of a trace id.
    labels.library.custom_labels_set(handle, string("trace_id"), string("0123456789abcdef"), None)
    expect(records(vitrine), {"tenant": "globex"}, "0" * 32, "00" * 7 + "01")
    labels.end(handle)
    assert all(not line["labels"] for line in records(vitrine))

    # From the start, by the environment.
    if "VITRINE_THREAD_CONTEXT" not in os.environ:
        again = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import python_records as p; "
                 "h = p.Labels(sys.argv[2]).show({'tenant': 'acme'}); p.expect(p.records(sys.argv[3]), {'tenant': 'acme'})",
                 os.path.dirname(os.path.abspath(__file__)), library, vitrine]
        subprocess.run(again, check=True, env={**os.environ, "VITRINE_THREAD_CONTEXT": "1"})
    print("sets of the C interface have records where they are asked for")


if __name__ == "__main__":
    main()
