// The NDJSON contract: each observed value as one object on a line.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "observe/doctor.hpp"
#include "observe/labels/labels.hpp"
#include "observe/probes/probe_symbols.hpp"
#include "observe/probes/probes.hpp"
#include "observe/process/facts.hpp"
#include "observe/ps.hpp"
#include "probe/evaluate.hpp"
#include "query/lexer.hpp"
#include "symbol/stack_names.hpp"

namespace vitrine::cli {

// The NDJSON contract: what each observed value looks like as one object a line
// (fires: cli/trace/output.hpp). A field, once
// published, keeps its name and type.

/// Adds "labels":[{"key","value"}], and, when there are ids, "trace_id","span_id","trace_flags",
/// "root_span_id".
void add_labels(Json& object, const format::LabelSet& set);

/// Adds what a limit cut and what the publisher broke, "truncated" and "defects", when there is such.
void add_flaws(Json& object, const std::vector<format::Truncation>& truncated,
               const std::vector<std::string>& defects);

/// {"pid","tid","comm","format","module","mode","evidence","labels":[{"key","value"}], and when
/// there are such:
/// "trace_id","span_id","trace_flags","root_span_id","truncated":[{"what","detail"}],"defects":[…]};
/// for a thread that could not be read, "error" instead of "evidence" and "labels".
Json to_json(const observe::ThreadLabels& thread);

/// {"address","function","offset","module"}: null where not known.
Json to_json(const symbol::StackFrame& frame);

/// {"pid","comm","threads","formats":[…],"context":bool,"probes":count, "service" and "problems" when there are
/// such}.
Json to_json(const observe::Publisher& publisher);

/// {"kind","provider","name","module","build_id","sites":[{"address","file_offset","function","args",
/// "types" and "arg_names" where known (null for an argument that is not), "semaphore", and when
/// there are such "arg_errors":[null or {"kind","message"}] and "problems"}]}. Of is-enabled sites,
/// where there are such: "enabled_sites":[{"address","file_offset","function","protocol",
/// "problems"}], the protocol "operand", "register" or "pointer". Of a process `pid`, whose code
/// lies at `bias`: "pid", of a DOF "instance" (the provider's name in this process), and in each
/// site "runtime_address".
Json to_json(const observe::ProbeFile& file, const probe::Probe& probe,
             observe::ArgumentErrors& errors, std::optional<Address> bias, int pid);

/// {"topic","what","verdict":"yes|no|partly","detail", "remedy" when there is one}.
Json to_json(const observe::Finding& finding);

/// text as json_bytes(), bool, numbers (integers beyond 2^53 and what JSON lacks as strings),
/// arrays, lists as [{"key","value"}], bytes as {"base64": "…"}, null when no value was set.
Json json_value(const format::AnyValue& value);

/// {"pid","version","published_at_ns","resource":[{"key","value"}],"attributes":[…], and when there
/// are such: "stale","truncated","defects"}.
Json to_json(int pid, const observe::ContextState& state);

/// Writes one object as one line to standard output and flushes it. False when the output has no reader
/// left: the command then ends.
[[nodiscard]] bool print_json(const Json& object);

// Values of fired probes as JSON.

/// A number; a string where JSON has none that is exact: integers beyond 2^53, infinity, NaN.
Json json_number(const query::Number& number);

/// Integers and floats as json_number(), pointers as "0x…", enumerators by their name, text as
/// json_bytes(), bytes as {"base64":"…"}, what could not be read as {"error":"…"}.
Json json_value(const probe::Value& value);

}  // namespace vitrine::cli
