#!/usr/bin/env python3
"""Breaks a good profile in every way that check_otlp.py must see.

usage: check_otlp_test.py GOOD-FILE
"""
import copy
import pathlib
import sys

import check_otlp
import decoded


def profiles(data):
    return [profile for of_resource in data["resource_profiles"]
            for scope in of_resource["scope_profiles"] for profile in scope["profiles"]]


def profile_of(data, type_name):
    strings = data["dictionary"][0]["string_table"]
    return next(p for p in profiles(data)
                if strings[p["sample_type"][0].one("type_strindex")] == type_name)


def on_cpu(data):
    return profile_of(data, b"samples")


def off_cpu(data):
    return profile_of(data, b"off_cpu")


def dictionary(data):
    return data["dictionary"][0]


def add_values(data):
    sample = on_cpu(data)["samples"][1]
    sample["values"] = [1] * len(sample["timestamps_unix_nano"])


# Rule -> what breaks it in a good profile.
BREAKS = {
    "index 0 is the zero message": [
        lambda d, table=table: dictionary(d)[f"{table}_table"].pop(0) for table in check_otlp.TABLES],
    "no duplicates": [
        lambda d, table=table: dictionary(d)[f"{table}_table"].append(dictionary(d)[f"{table}_table"][1])
        for table in check_otlp.TABLES],
    "no orphans": [
        lambda d: dictionary(d)["string_table"].append(b"nobody's"),
        lambda d: dictionary(d)["stack_table"].append(decoded.Message(location_indices=[1, 1, 1]))],
    "index in range": [
        lambda d: on_cpu(d)["samples"][0].update(stack_index=[10_000]),
        lambda d: on_cpu(d)["samples"][0].update(stack_index=[-1]),
        lambda d: dictionary(d)["location_table"][1].update(mapping_index=[99])],
    "keys are unique": [
        lambda d: on_cpu(d)["samples"][0]["attribute_indices"].append(
            on_cpu(d)["samples"][0]["attribute_indices"][0]),
        lambda d: d["resource_profiles"][0]["resource"][0]["attributes"].append(
            d["resource_profiles"][0]["resource"][0]["attributes"][0])],
    "attributes have a key": [lambda d: dictionary(d)["attribute_table"][1].pop("key_strindex")],
    "attributes have a value": [lambda d: dictionary(d)["attribute_table"][1].pop("value")],
    "attributes are not the zero message": [
        lambda d: on_cpu(d)["samples"][0]["attribute_indices"].append(0)],
    "timestamps are in the profile's time": [
        lambda d: on_cpu(d)["samples"][0]["timestamps_unix_nano"].append(1),
        lambda d: on_cpu(d).update(duration_nano=[1])],
    "shape of samples": [
        lambda d: off_cpu(d)["samples"][0]["values"].append(1),
        lambda d: on_cpu(d)["samples"][0].pop("timestamps_unix_nano")],
    "one shape a profile": [add_values],
    "on-CPU samples have times alone": [add_values],
    "samples are not the same": [
        lambda d: on_cpu(d)["samples"].append(on_cpu(d)["samples"][0])],
    "links have 16 and 8 bytes": [lambda d: dictionary(d)["link_table"][1].update(span_id=[b"short"])],
    "mappings have a build id": [
        lambda d: next(m for m in dictionary(d)["mapping_table"][1:]
                       if dictionary(d)["string_table"][m.one("filename_strindex")][:1] == b"/"
                       ).pop("attribute_indices")],
    "mappings begin before they end": [
        lambda d: dictionary(d)["mapping_table"][1].update(memory_limit=[0])],
    "addresses are in their mapping": [
        lambda d: next(l for l in dictionary(d)["location_table"] if "mapping_index" in l
                       ).update(address=[1])],
    "lines have a function": [
        lambda d: next(l for l in dictionary(d)["location_table"] if "lines" in l
                       )["lines"][0].pop("function_index")],
    "stacks do not hold the zero location": [
        lambda d: dictionary(d)["stack_table"][1]["location_indices"].append(0)],
    "profiles have a time": [lambda d: on_cpu(d).pop("time_unix_nano")],
    "profile ids have 16 bytes": [
        lambda d: on_cpu(d).update(profile_id=[b"1"]),
        lambda d: off_cpu(d).pop("profile_id")],
    "no two profiles have one id": [
        lambda d: off_cpu(d).update(profile_id=on_cpu(d)["profile_id"])],
    "attributes have a schema": [
        lambda d: d["resource_profiles"][0].pop("schema_url"),
        lambda d: d["resource_profiles"][0]["scope_profiles"][0].pop("schema_url")],
    "sample types have a type and a unit": [lambda d: on_cpu(d)["sample_type"][0].pop("unit_strindex")],
    "period type is there": [lambda d: off_cpu(d).pop("period_type")],
    "on-CPU profiles have a period": [lambda d: on_cpu(d).pop("period")],
    "off-CPU profiles have no period": [lambda d: off_cpu(d).update(period=[7])],
    "sample type is one we write": [
        lambda d: off_cpu(d)["sample_type"][0].update(
            type_strindex=off_cpu(d)["sample_type"][0]["unit_strindex"])],
    "dictionary": [lambda d: d.pop("dictionary")],
}


def main():
    data = pathlib.Path(sys.argv[1]).read_bytes()
    good = decoded.decode("otlp.proto", "otlp.ProfilesData", data)
    assert not check_otlp.violations(good), check_otlp.violations(good)
    missed = []
    for rule, breaks in BREAKS.items():
        for number, break_it in enumerate(breaks):
            broken = copy.deepcopy(good)
            break_it(broken)
            if not any(found.startswith(rule + ":") for found in check_otlp.violations(broken)):
                missed.append(f"{rule} ({number})")
    for cut in (b"\xff", data[:-1], data + b"\x7a\x00"):  # no protobuf, cut off, an unknown field
        try:
            decoded.decode("otlp.proto", "otlp.ProfilesData", cut)
            missed.append(f"{len(cut)} bytes that are no ProfilesData")
        except ValueError:
            pass
    print("missed:" if missed else "nothing missed", *missed, sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
