#include "export/trouble.hpp"

#include <algorithm>
#include <utility>

namespace vitrine::exporter {
namespace {

/// An error without what differs each time that it happens: libcurl's "after 3 ms".
std::string without_measures(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  std::string out;
  while (!text.empty()) {
    const std::size_t number = std::min(text.find_first_of(digits), text.size());
    out += text.substr(0, number);
    text.remove_prefix(number);
    const std::size_t end = std::min(text.find_first_not_of(digits), text.size());
    const std::string_view unit = text.substr(end);
    const bool measures = unit.starts_with(" ms") || unit.starts_with(" millisecond") ||
                          unit.starts_with(" second") || unit.starts_with(" byte") ||
                          unit.starts_with(" out of ");
    if (!measures) out += text.substr(0, end);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

bool Trouble::add(std::string_view text, Time now) {
  std::string trouble = without_measures(text);
  const bool is_new = trouble != current_;
  if (trouble.empty() || (!is_new && is_reported_)) {
    current_ = std::move(trouble);
    return false;
  }
  std::erase_if(recent_, [&](const auto& one) { return now - one.second >= between; });
  is_reported_ = recent_.size() < most && !recent_.contains(trouble);
  if (is_reported_) {
    recent_.emplace(trouble, now);
    if (!is_new && left_out_ > 0) --left_out_;  // it lasts, and was counted when it began
  } else if (is_new) {
    if (left_out_++ == 0) left_out_since_ = now;
  }
  current_ = std::move(trouble);
  return is_reported_;
}

std::uint64_t Trouble::take_left_out(Time now, bool at_once) {
  return at_once || now - left_out_since_ >= between ? std::exchange(left_out_, 0) : 0;
}

}  // namespace vitrine::exporter
