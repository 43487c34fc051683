// Process context payload, version 1 (development): a msgpack map of attributes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/limits.hpp"
#include "format/payload.hpp"

namespace vitrine::format {
namespace {

using Json = nlohmann::json;

/// Builds values from the events of nlohmann's parser, which allocates nothing by announced
/// lengths. A handler that returns false ends the parse, before the parser recurses deeper.
class Handler : public nlohmann::json_sax<Json> {
 public:
  ProcessContext context;
  Error error{ErrorCode::malformed, "process context: the msgpack payload is not a map", {}};

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override { return add({value}); }
  bool number_unsigned(std::uint64_t value) override {
    // OpenTelemetry has no unsigned integers; the digits are what the publisher meant.
    if (value > std::numeric_limits<std::int64_t>::max()) return add({std::to_string(value)});
    return add({static_cast<std::int64_t>(value)});
  }
  bool number_float(double value, const std::string&) override { return add({value}); }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(Json::binary_t& value) override {
    return add({Blob{std::string(value.begin(), value.end())}});
  }

  bool key(std::string& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return open({KeyValueList{}}); }
  bool start_array(std::size_t) override { return !open_.empty() && open({ValueArray{}}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error.message = fmt::format("process context: invalid msgpack payload at byte {}", position);
    return false;
  }

 private:
  struct Container {
    AnyValue value;
    std::string key;  ///< of a map: the one whose value comes next
  };

  bool add(AnyValue value) {
    if (open_.empty()) return false;
    Container& into = open_.back();
    if (auto* array = std::get_if<ValueArray>(&into.value.data)) {
      if (room(array->size())) array->push_back(std::move(value));
    } else if (auto* list = std::get_if<KeyValueList>(&into.value.data)) {
      if (room(list->size())) list->push_back({std::move(into.key), std::move(value)});
    }
    return true;
  }

  bool room(std::size_t size) {
    if (size < limits::context_attributes) return true;
    note_cut(context, "attributes", fmt::format("kept {} of a list", limits::context_attributes));
    return false;
  }

  bool open(AnyValue container) {
    if (open_.size() > limits::context_nesting) {
      error = {ErrorCode::limit,
               fmt::format("process context: nested deeper than {}", limits::context_nesting),
               {}};
      return false;
    }
    open_.push_back({std::move(container), {}});
    return true;
  }

  bool close() {
    AnyValue done = std::move(open_.back().value);
    open_.pop_back();
    if (!open_.empty()) return add(std::move(done));
    context.resource = std::move(std::get<KeyValueList>(done.data));
    return true;
  }

  std::vector<Container> open_;
};

}  // namespace

Result<ProcessContext> decode_msgpack(std::span<const std::byte> payload) {
  Handler handler;
  const auto* first = reinterpret_cast<const std::uint8_t*>(payload.data());
  if (!Json::sax_parse(first, first + payload.size(), &handler, Json::input_format_t::msgpack))
    return tl::unexpected(std::move(handler.error));
  return std::move(handler.context);
}

}  // namespace vitrine::format
