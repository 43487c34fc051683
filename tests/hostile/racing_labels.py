"""What labels of tests/writers/racing.c may look like when their reader vouches for them."""

VOUCHED_FOR = ("stopped", "sampled", "proven", "serial")


def _generation(value):
    """Each value begins and ends with its generation, and is filled by it; else it is torn."""
    number = int(value[:16], 16)
    filling = chr(ord("a") + number % 26) * (number % 64)
    return number if value == f"{number:016x}{filling}{number:016x}" else None


def torn(pattern, labels, trace_id=None, span_id=None):
    """Why what one thread showed cannot have been on display; None when it can."""
    if pattern == "owner":
        others = [label for label in labels if (label["key"], label["value"]) != ("owner", "mine")]
        return f"labels of another process: {others}" if others else None
    try:
        generations = {_generation(label["value"]) for label in labels}
    except ValueError:
        return f"no generation: {labels}"
    if None in generations:
        return f"torn value: {labels}"
    if pattern in ("swap", "ring") and (len(generations) > 1 or len(labels) not in (0, 3)):
        return f"labels of several sets: {labels}"
    if trace_id and span_id:
        # Stored as numbers of 8 bytes, shown byte for byte.
        if not trace_id[:16] == trace_id[16:] == span_id:
            return f"ids of several records: {trace_id} {span_id}"
    return None


def torn_in(pattern, run):
    """Every torn reading in a run of `labels`, `trace` or `profile`, by a reader that vouches."""
    found, read = [], 0
    for thing in run.kept:
        vouched = thing.get("evidence", "sampled") in VOUCHED_FOR
        if not vouched or "labels" not in thing:
            continue
        labels = thing["labels"]
        if isinstance(labels, dict):
            labels = [{"key": key, "value": value} for key, value in labels.items()]
        read += bool(labels) or bool(thing.get("trace_id"))
        why = torn(pattern, labels, thing.get("trace_id"), thing.get("span_id"))
        if why:
            found.append(f"{run.command}: {why}")
    return found, read
