#!/usr/bin/env python3
"""The agent beside the Collector's own OTLP receiver (a Go module), over HTTP and gRPC: what its processes did, and what
the agent's files of samples hold, is what the receiver has: sums by label, samples, trace ids, in all four signals.

    real_receiver.py VITRINE SPANS_SUBJECT PROFILE_SUBJECT EXPORT_TESTS BUILD_FOLDER
"""
import pathlib
import sys

from arrivals import Receiver, compare, observed

VITRINE, SPANS, BURNER, EXPORT, BUILD = sys.argv[1:]
sys.path.insert(0, EXPORT)
import go  # noqa: E402

try:
    program = go.build(pathlib.Path(EXPORT, "otlpreceiver"), f"{BUILD}/otlpreceiver", f"{BUILD}/cache")
except go.Missing as reason:
    print(f"skipped: {reason}")
    sys.exit(go.SKIPPED)
for protocol in ("http", "grpc"):
    receiver = Receiver(program)
    with observed(VITRINE, SPANS, BURNER, f"otlp+{protocol}://{receiver.ports[protocol]}") as folder:
        print(f"{protocol}: {compare(receiver.end(), folder)}")
