// The string table of a DOF that is being written: each text once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vitrine::dof {

class StringTable {
 public:
  /// The offset of `text`, which has no NUL.
  std::uint32_t add(std::string_view text) { return add_bytes(std::string(text) + '\0'); }

  /// The offset of texts that follow each other; of none: 0, which nobody looks at.
  std::uint32_t add(const std::vector<std::string>& texts);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::uint32_t add_bytes(std::string text);

  std::string bytes_ = std::string(1, '\0');  // as readers expect: offset 0 is the empty string
  std::unordered_map<std::string, std::uint32_t> known_;
};

}  // namespace vitrine::dof
