#include "cli/output/json.hpp"

#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "cli/output/evidence.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "probe/probe.hpp"
#include "probe/types.hpp"

namespace vitrine::cli {
namespace {

struct NumberToJson {
  Json operator()(std::int64_t number) const { return json_integer(number); }
  Json operator()(std::uint64_t number) const { return json_integer(number); }
  Json operator()(double number) const {
    if (std::isnan(number)) return "nan";  // whatever its sign
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    return number;
  }
};

struct ValueToJson {
  Json operator()(std::int64_t number) const { return NumberToJson{}(number); }
  Json operator()(std::uint64_t number) const { return NumberToJson{}(number); }
  Json operator()(double number) const { return NumberToJson{}(number); }
  Json operator()(bool truth) const { return truth; }
  Json operator()(const probe::PointerValue& pointer) const {
    return pointer.is_absent ? Json() : Json(hex(pointer.address));
  }
  Json operator()(const probe::EnumeratorValue& enumerator) const {
    return enumerator.name.empty() ? enumerator.with_number(NumberToJson{})
                                   : json_bytes(enumerator.name);
  }
  Json operator()(const probe::StringValue& string) const { return json_bytes(string.text); }
  Json operator()(const probe::BytesValue& bytes) const {
    const auto* first = reinterpret_cast<const char*>(bytes.bytes.data());
    return json_base64({first, bytes.bytes.size()});
  }
  Json operator()(const probe::ListValue& list) const {
    Json items = Json::array();
    for (const std::string& item : list.items) items.push_back(json_bytes(item));
    return items;
  }
  Json operator()(const probe::ValueError& error) const {
    return {{"error", json_bytes(error.message)}};
  }
};

}  // namespace

Json json_number(const query::Number& number) {
  return std::visit(NumberToJson{}, number);
}

Json json_value(const probe::Value& value) {
  return std::visit(ValueToJson{}, value);
}

namespace {

Json json_list(const format::KeyValueList& list) {
  Json out = Json::array();
  for (const format::KeyValue& item : list)
    out.push_back({{"key", json_bytes(item.key)}, {"value", json_value(item.value)}});
  return out;
}

/// One entry an argument: what `describe` returns for it, null for one without.
template <class Describe>
Json json_described(const probe::Site& site, Describe describe) {
  Json out(site.arguments.size(), nullptr);
  for (const probe::ArgumentType& type : site.types) {
    if (type.argument >= out.size()) continue;
    const std::string text = describe(type, site.arguments[type.argument]);
    if (!text.empty()) out[type.argument] = json_bytes(text);
  }
  return out;
}

/// Where any site is.
Json json_place(const probe::Site& site, std::optional<Address> bias) {
  Json out = {{"address", hex(site.address)}};
  if (bias) out["runtime_address"] = hex(site.address + *bias);
  out["file_offset"] = site.file_offset ? Json(hex(*site.file_offset)) : Json();
  out["function"] = site.function.empty() ? Json() : json_bytes(site.function_name());
  if (site.is_stub) out["stub"] = true;
  for (const std::string& problem : site.problems) out["problems"].push_back(json_bytes(problem));
  return out;
}

Json json_site(const probe::Site& site, observe::ArgumentErrors& errors,
               std::optional<Address> bias) {
  Json out = json_place(site, bias);
  Json& arguments = out["args"] = Json::array();
  for (const std::string& argument : site.arguments) arguments.push_back(json_bytes(argument));
  if (!site.types.empty()) {
    out["types"] = json_described(site, probe::type_name);
    out["arg_names"] =
        json_described(site, [](const auto& type, const std::string&) { return type.name; });
  }
  out["semaphore"] = site.semaphore == 0 ? Json() : Json(hex(site.semaphore));
  for (const auto& error : errors.of(site))
    out["arg_errors"].push_back(
        error ? Json{{"kind", probe::name(error->kind)}, {"message", json_bytes(error->message)}}
              : Json());
  return out;
}

Json json_enabled_site(const probe::Site& site, std::optional<Address> bias) {
  Json out = json_place(site, bias);
  out["protocol"] = probe::protocol_name(site.use);
  return out;
}

/// The JSON form of each alternative of AnyValue.
struct AnyValueToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const std::string& text) const { return json_bytes(text); }
  Json operator()(bool truth) const { return truth; }
  Json operator()(std::int64_t number) const { return json_number(number); }
  Json operator()(double number) const { return json_number(number); }
  Json operator()(const format::ValueArray& array) const {
    Json out = Json::array();
    for (const format::AnyValue& value : array) out.push_back(json_value(value));
    return out;
  }
  Json operator()(const format::KeyValueList& list) const { return json_list(list); }
  Json operator()(const format::Blob& blob) const { return json_base64(blob.bytes); }
};

}  // namespace

void add_labels(Json& object, const format::LabelSet& set) {
  Json& labels = object["labels"] = Json::array();
  for (const format::Label& label : set.labels)
    labels.push_back({{"key", json_bytes(label.key)}, {"value", json_bytes(label.value)}});
  if (!set.trace) return;
  object["trace_id"] = hex_text(set.trace->trace_id);
  object["span_id"] = hex_text(set.trace->span_id);
  if (set.trace->trace_flags) object["trace_flags"] = *set.trace->trace_flags;
  if (set.trace->root_span_id) object["root_span_id"] = hex_text(*set.trace->root_span_id);
}

void add_flaws(Json& object, const std::vector<format::Truncation>& truncated,
               const std::vector<std::string>& defects) {
  for (const format::Truncation& cut : truncated)
    object["truncated"].push_back({{"what", cut.what}, {"detail", json_bytes(cut.detail)}});
  for (const std::string& defect : defects) object["defects"].push_back(json_bytes(defect));
}

Json to_json(const observe::ThreadLabels& thread) {
  Json object = {{"pid", thread.pid},
                 {"tid", thread.tid},
                 {"comm", json_bytes(thread.comm)},
                 {"format", format::name(thread.format)},
                 {"module", json_bytes(thread.module)},
                 {"mode", observe::name(thread.mode)}};
  if (has_evidence(thread)) object["evidence"] = observe::name(thread.evidence);
  if (!thread.set) {
    object["error"] = json_bytes(thread.set.error().message);
    return object;
  }
  const format::LabelSet& set = *thread.set;
  add_labels(object, set);
  add_flaws(object, set.truncated, format::texts(set.defects, set.defects_left_out));
  return object;
}

Json to_json(const symbol::StackFrame& frame) {
  const bool known = !frame.function.empty();
  Json object = {{"address", hex(frame.address)},
                 {"function", known ? json_bytes(frame.function) : Json()},
                 {"offset", known && frame.offset ? Json(*frame.offset) : Json()},
                 {"module", frame.module.empty() ? Json() : json_bytes(frame.module)}};
  if (frame.inlined) object["inlined"] = true;
  return object;
}

Json json_value(const format::AnyValue& value) {
  return std::visit(AnyValueToJson{}, value.data);
}

Json to_json(int pid, const observe::ContextState& state) {
  const format::ProcessContext& context = state.context;
  Json object = {{"pid", pid},
                 {"version", context.version},
                 {"published_at_ns", std::to_string(context.published_at_ns)},
                 {"resource", json_list(context.resource)},
                 {"attributes", json_list(context.attributes)}};
  if (!state.stale.empty()) object["stale"] = json_bytes(state.stale);
  add_flaws(object, context.truncated, context.defects);
  return object;
}

Json to_json(const observe::Publisher& publisher) {
  Json object = {{"pid", publisher.pid},
                 {"comm", json_bytes(publisher.comm)},
                 {"threads", publisher.threads},
                 {"formats", Json::array()},
                 {"context", publisher.has_context},
                 {"probes", publisher.probes}};
  for (const format::Format format : publisher.formats)
    object["formats"].push_back(format::name(format));
  if (!publisher.service.empty()) object["service"] = json_bytes(publisher.service);
  if (!publisher.problems.empty()) {
    Json& problems = object["problems"] = Json::array();
    for (const std::string& problem : publisher.problems) problems.push_back(json_bytes(problem));
  }
  return object;
}

Json to_json(const observe::ProbeFile& file, const probe::Probe& probe,
             observe::ArgumentErrors& errors, std::optional<Address> bias, int pid) {
  Json object = {{"kind", probe.kind == probe::Kind::sdt   ? "sdt"
                          : probe.kind == probe::Kind::dof ? "dof"
                                                           : "function"},
                 {"provider", json_bytes(probe.provider)},
                 {"name", json_bytes(probe.name)},
                 {"module", json_bytes(file.path)},
                 {"build_id", file.build_id.empty() ? Json() : Json(file.build_id)}};
  if (bias) object["pid"] = pid;
  if (bias && probe.kind == probe::Kind::dof)
    object["instance"] = json_bytes(probe::instance_name(probe, pid));
  Json& sites = object["sites"] = Json::array();
  for (const probe::Site& site : probe.sites) sites.push_back(json_site(site, errors, bias));
  for (const probe::Site& site : probe.enabled_sites)
    object["enabled_sites"].push_back(json_enabled_site(site, bias));
  return object;
}

Json to_json(const observe::Finding& finding) {
  Json object = {{"topic", finding.topic},
                 {"what", finding.what},
                 {"verdict", observe::name(finding.verdict)},
                 {"detail", json_bytes(finding.detail)}};
  if (!finding.remedy.empty()) object["remedy"] = finding.remedy;
  return object;
}

bool print_json(const Json& object) {
  const std::string line = json_text(object) + '\n';
  return write_output(line) && flush_output();
}

}  // namespace vitrine::cli
