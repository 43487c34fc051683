// <vitrine/observe/context.hpp>.
#include <vitrine/observe/context.hpp>

#include "observe/interface/convert.hpp"
#include "observe/process/facts.hpp"

namespace vitrine::observer {
inline namespace v1 {
namespace {

std::vector<Attribute> public_attributes(const format::KeyValueList& from);

AttributeValue public_attribute_value(const format::AnyValue& from) {
  AttributeValue to;
  std::visit(
      [&](const auto& value) {
        using Type = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, format::ValueArray>) {
          std::vector<AttributeValue> list;
          for (const format::AnyValue& one : value) list.push_back(public_attribute_value(one));
          to.data = std::move(list);
        } else if constexpr (std::is_same_v<Type, format::KeyValueList>) {
          to.data = public_attributes(value);
        } else if constexpr (std::is_same_v<Type, format::Blob>) {
          to.data = Bytes{value.bytes};
        } else {
          to.data = value;
        }
      },
      from.data);
  return to;
}

std::vector<Attribute> public_attributes(const format::KeyValueList& from) {
  std::vector<Attribute> to;
  to.reserve(from.size());
  for (const format::KeyValue& one : from)
    to.push_back({one.key, public_attribute_value(one.value)});
  return to;
}

}  // namespace

struct ContextReader::State {
  std::unique_ptr<observe::ContextReader> reader;
};

ContextReader::ContextReader(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ContextReader::ContextReader(ContextReader&&) noexcept = default;
ContextReader& ContextReader::operator=(ContextReader&&) noexcept = default;
ContextReader::~ContextReader() = default;

Result<ContextReader> ContextReader::open(int pid) {
  return convert::opened<ContextReader>(observe::ContextReader::open(pid), [](auto reader) {
    return ContextReader(std::make_unique<State>(State{std::move(reader)}));
  });
}

Result<std::optional<ProcessContext>> ContextReader::read() {
  auto state = state_->reader->refresh();
  if (!state) return convert::error(std::move(state.error()));
  if (*state == nullptr) return std::optional<ProcessContext>();
  const format::ProcessContext& from = (*state)->context;
  ProcessContext to;
  to.version = from.version;
  to.published_at_ns = from.published_at_ns;
  to.resource = public_attributes(from.resource);
  to.attributes = public_attributes(from.attributes);
  for (const format::Truncation& cut : from.truncated)
    to.truncated.push_back(cut.what + ": " + cut.detail);
  to.defects = from.defects;
  to.stale = (*state)->stale;
  to.notes = (*state)->notes;
  return std::optional<ProcessContext>(std::move(to));
}

Result<std::optional<ProcessContext>> read_context(int pid) {
  auto reader = ContextReader::open(pid);
  if (!reader) return reader.error();
  return reader->read();
}

}  // namespace v1
}  // namespace vitrine::observer
