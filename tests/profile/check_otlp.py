#!/usr/bin/env python3
"""Checks OTLP profiles by the rules of profiles.proto and of the specification's text, as profcheck
does, and by what backends want (docs/formats/profiles.md, "OTLP" and "What OTLP receivers require").
Decoding is protoc's.

usage: check_otlp.py FILE…            names each rule that is broken; exit 1 when there is any
       check_otlp.py --totals KEY FILE…   also prints {"VALUE": [on-CPU ns, off-CPU ns]} of all files
"""
import argparse
import json
import pathlib
import sys

import decoded

TABLES = ("mapping", "location", "function", "link", "string", "attribute", "stack")


class Checker:
    def __init__(self, data):
        self.data = data
        self.found = []
        self.profile_ids = set()
        self.dictionary = data.one("dictionary", None)
        if self.dictionary is None:
            self.broken("dictionary", "there is none")
            self.dictionary = decoded.Message()
        self.tables = {name: self.dictionary.all(f"{name}_table") for name in TABLES}
        self.used = {name: {0} for name in TABLES}

    def broken(self, rule, detail):
        self.found.append(f"{rule}: {detail}")

    def at(self, table, index, who):
        """The entry, which is now referred to."""
        entries = self.tables[table]
        if not 0 <= index < len(entries):
            self.broken("index in range", f"{who}: {table} {index} of {len(entries)}")
            return b"" if table == "string" else decoded.Message()
        self.used[table].add(index)
        return entries[index]

    def text(self, index, who):
        return self.at("string", index, who).decode()

    # ---- the dictionary

    def check_tables(self):
        for name, entries in self.tables.items():
            if not entries or entries[0] != (b"" if name == "string" else {}):
                self.broken("index 0 is the zero message", f"{name} table")
            seen = set()
            for entry in entries:
                key = repr(entry)
                if key in seen:
                    self.broken("no duplicates", f"{name} {key}")
                seen.add(key)

    def check_orphans(self):
        for name, entries in self.tables.items():
            for index in set(range(len(entries))) - self.used[name]:
                self.broken("no orphans", f"{name} {index}: {entries[index]!r}")

    def attributes(self, message, who):
        """Key -> AnyValue of the attributes that `message` lists."""
        out = {}
        for index in message.all("attribute_indices"):
            if index == 0:
                self.broken("attributes are not the zero message", who)
            entry = self.at("attribute", index, who)
            key = self.text(entry.one("key_strindex"), who)
            self.text(entry.one("unit_strindex"), who)
            value = entry.one("value", None)
            if not key:
                self.broken("attributes have a key", who)
            if not value:
                self.broken("attributes have a value", f"{who}: {key}")
            if key in out:
                self.broken("keys are unique", f"{who}: {key}")
            out[key] = self.plain(value or decoded.Message(), who)
        return out

    def plain(self, value, who):
        if "string_value_strindex" in value:
            return self.text(value.one("string_value_strindex"), who)
        if "string_value" in value:
            return value.one("string_value").decode()
        if "array_value" in value:
            return [self.plain(one, who) for one in value.one("array_value").all("values")]
        return next(iter(value.values()))[-1] if value else None

    def check_mapping(self, index, who):
        mapping = self.at("mapping", index, who)
        who = f"mapping {index}"
        name = self.text(mapping.one("filename_strindex"), who)
        attributes = self.attributes(mapping, who)
        ids = [key for key in attributes if key.startswith("process.executable.build_id.")]
        if name.startswith("/") and not ids:
            self.broken("mappings have a build id", f"{who}: {name}")
        # Where "[kernel]" ends nobody tells.
        known = not name.startswith("[") or mapping.one("memory_limit")
        if index and known and mapping.one("memory_start") >= mapping.one("memory_limit"):
            self.broken("mappings begin before they end", f"{who}: {name}")
        return mapping

    def check_location(self, index, who):
        location = self.at("location", index, who)
        who = f"location {index}"
        mapping = self.check_mapping(location.one("mapping_index"), who)
        address = location.one("address")
        if mapping.one("memory_limit") and not (
                mapping.one("memory_start") <= address < mapping.one("memory_limit")):
            self.broken("addresses are in their mapping", f"{who}: {address:#x}")
        for line in location.all("lines"):
            if line.one("function_index") == 0:
                self.broken("lines have a function", who)
            function = self.at("function", line.one("function_index"), who)
            for field in ("name", "system_name", "filename"):
                self.text(function.one(f"{field}_strindex"), who)
        self.attributes(location, who)

    def check_stack(self, index, who):
        for location in self.at("stack", index, who).all("location_indices"):
            if location == 0:
                self.broken("stacks do not hold the zero location", f"stack {index}")
            elif location not in self.used["location"]:
                self.check_location(location, f"stack {index}")

    def check_link(self, index, who):
        link = self.at("link", index, who)
        if index and (len(link.one("trace_id", b"")), len(link.one("span_id", b""))) != (16, 8):
            self.broken("links have 16 and 8 bytes", f"{who}: link {index}")

    # ---- profiles

    def value_type(self, message, who):
        return (self.text(message.one("type_strindex"), who),
                self.text(message.one("unit_strindex"), who))

    def check_samples(self, profile, who):
        begin = profile.one("time_unix_nano")
        end = begin + profile.one("duration_nano")
        if begin == 0:
            self.broken("profiles have a time", who)
        shapes, seen = set(), set()
        for number, sample in enumerate(profile.all("samples")):
            here = f"{who}: sample {number}"
            times, values = sample.all("timestamps_unix_nano"), sample.all("values")
            if any(not begin <= time < end for time in times):
                self.broken("timestamps are in the profile's time", here)
            if not times and len(values) != 1 or times and values and len(times) != len(values):
                self.broken("shape of samples", f"{here}: {len(times)} times, {len(values)} values")
            shapes.add((bool(times), bool(values)))
            if sample.one("stack_index") not in self.used["stack"]:
                self.check_stack(sample.one("stack_index"), here)
            self.check_link(sample.one("link_index"), here)
            attributes = self.attributes(sample, here)
            identity = (sample.one("stack_index"), sample.one("link_index"),
                        frozenset(sample.all("attribute_indices")))
            if identity in seen:
                self.broken("samples are not the same", here)
            seen.add(identity)
            yield sample, attributes
        if len(shapes) > 1:
            self.broken("one shape a profile", who)

    def check_profile(self, profile, who):
        sampled = self.value_type(profile.one("sample_type", decoded.Message()), who)
        if "" in sampled:
            self.broken("sample types have a type and a unit", who)
        if len(profile.one("profile_id", b"")) != 16:
            self.broken("profile ids have 16 bytes", who)
        if (identity := profile.one("profile_id", b"")) in self.profile_ids:
            self.broken("no two profiles have one id", who)
        self.profile_ids.add(identity)
        self.attributes(profile, who)
        period_type = profile.one("period_type", None)
        if period_type is None:
            self.broken("period type is there", who)  # Parca refuses the profile otherwise
            period_type = decoded.Message()
        period = (self.value_type(period_type, who), profile.one("period"))
        if sampled == ("samples", "count"):
            if period[0] != ("cpu", "nanoseconds") or period[1] <= 0:
                self.broken("on-CPU profiles have a period", f"{who}: {period}")
        elif sampled == ("off_cpu", "nanoseconds"):
            if period != (("", ""), 0):  # Pyroscope takes it for something else otherwise
                self.broken("off-CPU profiles have no period", f"{who}: {period}")
        else:
            self.broken("sample type is one we write", f"{who}: {sampled}")
        for sample, attributes in self.check_samples(profile, who):
            if sampled[0] == "samples":
                if sample.all("values"):  # Pyroscope cannot read both
                    self.broken("on-CPU samples have times alone", who)
                yield 0, len(sample.all("timestamps_unix_nano")) * period[1], attributes
            else:
                yield 1, sum(sample.all("values")), attributes

    def check(self):
        """Yields (0 on-CPU or 1 off-CPU, nanoseconds, attributes) of each sample."""
        self.check_tables()
        for number, of_resource in enumerate(self.data.all("resource_profiles")):
            who = f"resource {number}"
            pairs = of_resource.one("resource", decoded.Message()).all("attributes")
            keys = [pair.one("key", b"").decode() for pair in pairs]
            if len(keys) != len(set(keys)) or "" in keys:
                self.broken("keys are unique", f"{who}: {keys}")
            if any(not pair.one("value", None) for pair in pairs):
                self.broken("attributes have a value", who)
            schemas = [of_resource] + of_resource.all("scope_profiles")
            if not all(message.one("schema_url", b"").startswith(b"https://") for message in schemas):
                self.broken("attributes have a schema", who)
            for scope in of_resource.all("scope_profiles"):
                for index, profile in enumerate(scope.all("profiles")):
                    yield from self.check_profile(profile, f"{who}, profile {index}")
        self.check_orphans()


def violations(data):
    """What is wrong with a decoded ProfilesData."""
    checker = Checker(data)
    for _ in checker.check():
        pass
    return checker.found


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--totals")
    arguments.add_argument("files", nargs="+", type=pathlib.Path)
    options = arguments.parse_args()
    totals, wrong = {}, False
    for file in options.files:
        checker = Checker(decoded.decode("otlp.proto", "otlp.ProfilesData", file.read_bytes()))
        for measure, ns, attributes in checker.check():
            totals.setdefault(attributes.get(options.totals, "(none)"), [0, 0])[measure] += ns
        for line in checker.found[:100]:
            print(f"{file}: {line}", file=sys.stderr)
        wrong |= bool(checker.found)
    if options.totals:
        print(json.dumps(totals))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
