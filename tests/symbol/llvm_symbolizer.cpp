#include "symbol/llvm_symbolizer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "elf/file.hpp"
#include "sandbox/files.hpp"
#include "support/child.hpp"

namespace vitrine::test {
namespace {

std::string normal(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

}  // namespace

std::vector<symbol::Frames> llvm_frames(const std::string& path,
                                        std::span<const Address> addresses) {
  const auto list = std::filesystem::temp_directory_path() /
                    fmt::format("vitrine-symbol-addresses-{}", ::getpid());
  {
    std::ofstream out(list);
    for (const Address address : addresses) out << fmt::format("{:#x}\n", address);
  }
  const auto outcome =
      run({"sh", "-c",
           fmt::format("'{}' --obj='{}' --inlines --no-demangle --functions=linkage "
                       "--output-style=JSON < '{}'",
                       LLVM_SYMBOLIZER, path, list.string())},
          {}, std::chrono::minutes(5));
  std::filesystem::remove(list);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<symbol::Frames> all;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const auto answer = nlohmann::json::parse(line);
    symbol::Frames frames;
    for (const auto& symbol : answer.at("Symbol"))
      frames.push_back({symbol.at("FunctionName"), "", symbol.at("FileName"), symbol.at("Line"),
                        symbol.at("StartLine")});
    if (frames.size() == 1 && frames[0].name.empty() && frames[0].line == 0) frames.clear();
    all.push_back(std::move(frames));
  }
  EXPECT_EQ(all.size(), addresses.size());
  all.resize(addresses.size());
  return all;
}

bool same(const symbol::Frames& ours, const symbol::Frames& theirs) {
  if (ours.size() != theirs.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string& name = ours[i].system_name.empty() ? ours[i].name : ours[i].system_name;
    // Where DWARF has no linkage name, ours has its scope and theirs has not.
    const bool is_same = name == theirs[i].name || name.ends_with("::" + theirs[i].name);
    if (!is_same || ours[i].line != theirs[i].line) return false;
    if (ours[i].line != 0 && normal(ours[i].file) != normal(theirs[i].file)) return false;
  }
  return true;
}

std::vector<Address> drawn_addresses(const std::string& path, std::size_t count) {
  auto memory = sandbox::FileMemory::from(sandbox::open_regular_at(AT_FDCWD, path).value()).value();
  const auto elf = elf::read_file(*memory).value();
  const elf::Section* text = elf.find(".text");
  EXPECT_NE(text, nullptr);
  std::mt19937_64 random(20'26);
  std::uniform_int_distribution<Address> draw(text->address, text->address + text->size - 1);
  std::vector<Address> addresses(count);
  for (Address& address : addresses) address = draw(random);
  return addresses;
}

std::string described(const symbol::Frames& frames) {
  std::string text;
  for (const symbol::Frame& frame : frames)
    text += fmt::format("  {} {} {}:{}\n", frame.name, frame.system_name, frame.file, frame.line);
  return text;
}

}  // namespace vitrine::test
