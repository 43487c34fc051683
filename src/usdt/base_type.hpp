// BaseType: the words before a declarator, brought into one spelling.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "usdt/c_type.hpp"

namespace vitrine::usdt {

/// "long unsigned int" and "unsigned long" are one type.
class BaseType {
 public:
  /// Whether `word` is one of those that C builds its own types of.
  static bool is_word(std::string_view word);

  bool empty() const { return words_ == 0; }
  void add(std::string_view word);

  /// Nothing: these words make no type together.
  [[nodiscard]] std::optional<CType> type() const;

 private:
  int words_ = 0;
  int longs_ = 0, shorts_ = 0, signed_ = 0, unsigned_ = 0, complex_ = 0;
  std::string base_;  // void, char, int, float, double, _Bool, __int128
  bool two_bases_ = false;
};

}  // namespace vitrine::usdt
