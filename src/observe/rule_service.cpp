#include "observe/rule_service.hpp"

#include <elf.h>

#include <unordered_map>

#include "base/limits.hpp"
#include "file/file_memory.hpp"
#include "unwind/frame_table.hpp"

namespace vitrine::observe {
namespace {

class RuleService final : public worker::Service {
 public:
  std::vector<std::byte> answer(std::span<const std::byte> bytes, FileDescriptor file) override {
    const auto question = pack::unpack<RuleQuestion>(bytes);
    if (!question) return {};
    for (const std::uint32_t number : question->closed) tables_.erase(number);
    if (question->what == RuleQuestion::What::open)
      return pack::pack(open(question->file, std::move(file)));
    const auto known = tables_.find(question->file);
    if (known == tables_.end()) return {};
    unwind::FrameTable& table = *known->second;
    if (question->what == RuleQuestion::What::rules)
      return pack::pack(rules(table, question->address));
    std::optional<unwind::Row> found;
    if (const unwind::Row* row = table.row(question->address)) found = *row;
    return pack::pack(found);
  }

 private:
  Result<OpenedRules> open(std::uint32_t number, FileDescriptor file) {
    auto memory = TRY(file::FileMemory::from(std::move(file)));
    auto table = TRY(unwind::FrameTable::open(std::move(memory)));
    OpenedRules opened{table->machine(), {}, table->problem().substr(0, limits::name_bytes)};
    for (const elf::Segment& segment : table->segments())
      if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0)
        opened.segments.push_back(segment);
    tables_[number] = std::move(table);
    return opened;
  }

  static FoundRules rules(unwind::FrameTable& table, Address address) {
    FoundRules found{{}, table.rules_around(address)};
    const unwind::Rule* rule = found.around.find(address);
    found.rule = rule != nullptr ? *rule : table.rule(address);
    return found;
  }

  std::unordered_map<std::uint32_t, std::shared_ptr<unwind::FrameTable>> tables_;
};

}  // namespace

std::unique_ptr<worker::Service> make_rule_service() {
  return std::make_unique<RuleService>();
}

}  // namespace vitrine::observe
