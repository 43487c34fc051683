#include "observe/doubtful_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "observe/spelling.hpp"

namespace vitrine::observe {
namespace {

using query::Comparison;

constexpr std::size_t names_told = 12;
constexpr std::size_t letters_a_slip = 3;  // of a word, for each character that differs

bool compares_size(const query::Step& step) {
  if (step.kind != query::Step::Kind::compare) return false;
  const auto* literal = std::get_if<query::Literal>(&step.right);
  const auto c = step.comparison;
  return literal != nullptr && std::holds_alternative<query::Number>(*literal) &&
         (c == Comparison::lt || c == Comparison::le || c == Comparison::gt || c == Comparison::ge);
}

/// How far the word is from the nearest name; of no names, very far.
std::size_t distance(const std::string& word, const std::vector<std::string>& names) {
  std::size_t least = word.size() + 1;
  for (const std::string& name : names) least = std::min(least, spelling_distance(word, name));
  return least;
}

/// What to say of a word, if it is doubtful. `is_number`: so it is used.
std::string doubt(bool is_number, const std::string& word,
                  const std::vector<std::unique_ptr<TraceProgram>>& programs) {
  const TraceProgram* nearest = nullptr;
  std::vector<std::string> names;
  for (const auto& program : programs) {
    std::vector<std::string> its_names = program->argument_names();
    const bool nearer = nearest == nullptr || distance(word, its_names) < distance(word, names);
    if (!nearer) continue;
    nearest = program.get();
    names = std::move(its_names);
  }
  if (nearest == nullptr || distance(word, names) == 0) return {};
  const bool alike = distance(word, names) * letters_a_slip <= word.size();
  if (!alike && !is_number) return {};
  if (names.size() > names_told) {
    names.resize(names_told);
    names.emplace_back("…");
  }
  return fmt::format(
      "'{}' is not an argument of {} ({}); used as a label key", word, nearest->probe(),
      names.empty() ? "its arguments have no names" : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::string> doubtful_words(
    const query::Expression& where, const std::vector<std::unique_ptr<TraceProgram>>& programs) {
  std::vector<std::string> doubts;
  for (const query::Step& step : where.steps()) {
    const auto* subject = std::get_if<query::Subject>(&step.left);
    if (subject == nullptr || subject->kind != query::Subject::Kind::word) continue;
    if (std::string text = doubt(compares_size(step), subject->name, programs); !text.empty())
      doubts.push_back(std::move(text));
  }
  return doubts;
}

std::vector<std::string> doubtful_words(
    const query::Item& value, const std::vector<std::unique_ptr<TraceProgram>>& programs) {
  if (value.subject.kind != query::Subject::Kind::word) return {};
  std::string text = doubt(true, value.subject.name, programs);
  if (text.empty()) return {};
  return {std::move(text)};
}

}  // namespace vitrine::observe
