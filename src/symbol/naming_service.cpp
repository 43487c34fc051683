#include "symbol/naming_service.hpp"

#include <optional>

#include "symbol/file_names.hpp"
#include "symbol/wire.hpp"

namespace vitrine::symbol {
namespace {

class NamingService final : public worker::Service {
 public:
  explicit NamingService(const Limits& limits) : limits_(limits) {}

  std::vector<std::byte> answer(std::span<const std::byte> question, FileDescriptor file) override {
    const auto asked = pack::unpack<Question>(question);
    if (!asked) return {};
    if (file) names_.emplace(std::move(file), asked->debug, asked->with_dwarf, limits_);
    Answer answer;
    for (const Address address : asked->addresses)
      answer.frames.push_back(names_ ? names_->find(address, asked->place) : Frames());
    if (names_) answer.problem = names_->problem();
    return encode_answer(answer);
  }

 private:
  Limits limits_;
  std::optional<FileNames> names_;
};

}  // namespace

std::unique_ptr<worker::Service> make_naming_service(const Limits& limits) {
  return std::make_unique<NamingService>(limits);
}

}  // namespace vitrine::symbol
