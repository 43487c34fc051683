#include "usdt/object_parser.hpp"

#include <algorithm>

namespace vitrine::usdt {
namespace {

struct Request {
  std::uint64_t size = 0;  ///< of the object
  std::string salt;
};

template <pack::Of<Request> T>
auto fields(T& request) {
  auto& [size, salt] = request;
  return std::tie(size, salt);
}

/// A machine by what find_machine() knows it by.
struct MachineName {
  std::uint16_t elf = 0;
  bool wide = false;
};

template <pack::Of<MachineName> T>
auto fields(T& name) {
  auto& [elf, wide] = name;
  return std::tie(elf, wide);
}

struct Response {
  std::optional<Error> error;
  std::optional<MachineName> machine;
  RewrittenObject object;  ///< without its machine
};

template <pack::Of<Response> T>
auto fields(T& response) {
  auto& [error, machine, object] = response;
  auto& [pointer, bytes, functions, features, register_protocol, pointer_protocol, only_lto,
         fat_lto, left_to_stubs, undeclared] = object;
  static_cast<void>(pointer);
  return std::tie(error, machine, bytes, functions, features, register_protocol, pointer_protocol,
                  only_lto, fat_lto, left_to_stubs, undeclared);
}

/// What it was forked with, it has.
class RewritingService final : public sandbox::Service {
 public:
  RewritingService(const DeclaredProbes& declared, const SiteRules& rules)
      : declared_(declared), rules_(rules) {}

  std::vector<std::byte> respond(std::span<const std::byte> request, FileDescriptor file) override {
    const auto asked = pack::unpack<Request>(request);
    if (!asked) return {};
    return pack_rewritten(read_whole({std::move(file), asked->size}).and_then([&](auto bytes) {
      return rewrite(bytes, declared_, rules_, asked->salt);
    }));
  }

 private:
  const DeclaredProbes& declared_;
  const SiteRules& rules_;
};

constexpr std::uint64_t response_bytes = 64U << 20;  // beyond the object and what is added to it
constexpr std::uint64_t usual_object = 64U << 20;

/// The object, what is made of it, that as a response, and tables of its symbols and relocations.
sandbox::Limits limits_for(std::uint64_t object) {
  return {(1ULL << 30) + 8 * object, std::chrono::seconds(60 + object / (8U << 20))};
}

}  // namespace

std::vector<std::byte> pack_rewritten(Result<RewrittenObject> object) {
  Response response;
  if (!object) {
    response.error = std::move(object.error());
    return pack::pack(response);
  }
  response.object = std::move(*object);
  if (const ObjectMachine* machine = response.object.machine)
    response.machine = MachineName{machine->elf, machine->wide};
  return pack::pack(response);
}

Result<Result<RewrittenObject>> unpack_rewritten(std::span<const std::byte> bytes,
                                                 const DeclaredProbes& declared) {
  auto response = TRY(pack::unpack<Response>(bytes));
  if (response.error) return Result<RewrittenObject>(tl::unexpect, std::move(*response.error));
  RewrittenObject& object = response.object;
  const auto& name = response.machine;
  if (name) object.machine = find_machine(name->elf, name->wide);
  const auto is_declared = [&](const auto& one) { return declared.has(one.provider, one.probe); };
  const auto is_whole = [](const FunctionSites& one) {
    return one.jumps.size() == one.offsets.size();
  };
  if ((name && object.machine == nullptr) || !std::ranges::all_of(object.functions, is_declared) ||
      !std::ranges::all_of(object.functions, is_whole) ||
      !std::ranges::all_of(object.left_to_stubs, is_declared))
    return fail(ErrorCode::malformed, "the response is not a rewritten object");
  return Result<RewrittenObject>(std::move(object));
}

Result<void> ObjectParser::start(const sandbox::Limits& limits) {
  worker_ = TRY(sandbox::Worker::start("vitrine-objects", limits, [this] {
    return std::make_unique<RewritingService>(declared_, rules_);
  }));
  return {};
}

Result<RewrittenObject> ObjectParser::rewrite(const InputFile& object, const std::string& salt) {
  if (!worker_ || room_ < object.size) {
    room_ = std::max(object.size, usual_object);
    TRY(start(limits_for(room_)));
  }
  const auto response =
      worker_->ask(pack::pack(Request{object.size, salt}), object.descriptor.get(),
                   static_cast<std::size_t>(2 * object.size + response_bytes), {});
  auto rewritten =
      response.and_then([&](const auto& bytes) { return unpack_rewritten(bytes, declared_); });
  if (rewritten) return std::move(*rewritten);
  auto error = response ? worker_->invalid_response() : tl::unexpected<Error>(response.error());
  worker_.reset();
  return error;
}

}  // namespace vitrine::usdt
