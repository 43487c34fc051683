// Conditions on fired probes: the language of --where (docs/tracing.md).
//
// parse() once, bind() to each site, then either ask holds() of every fire or let the kernel do it
// with compile(). Both give the same result: a comparison with something that is not there (no such
// label, an argument that could not be read) is false, `!=` too.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "query/keyed_hash.h"
#include "query/lexer.hpp"
#include "query/predicate.h"
#include "query/subject.hpp"

namespace vitrine::query {

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge, like, unlike };

/// Whether a comparison is true of two values in this order. Never of `like` and `unlike`.
bool holds(Comparison comparison, std::partial_ordering order);

using Term = std::variant<Subject, Literal>;

/// Step of a condition in postfix order, over a stack of truth values.
struct Step {
  enum class Kind : std::uint8_t { compare, present, both, either, negate };
  Kind kind = Kind::present;
  Comparison comparison = Comparison::eq;
  Term left;           ///< compare, present
  Term right;          ///< compare
  std::size_t at = 0;  ///< where in the text
  std::size_t end = 0;
};

/// A condition as it was written.
class Expression {
 public:
  /// Errors: usage, with the text and a caret under the place where it stops making sense.
  static Result<Expression> parse(std::string_view text);

  const std::string& text() const { return text_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::string text_;
  std::vector<Step> steps_;  ///< never empty
};

/// A condition at one site.
class Condition {
 public:
  /// Of no expression: always true.
  Condition() = default;

  bool holds(const Fire& fire) const;

  /// What the kernel side must look up for it, each once.
  std::vector<Selected> selected() const;

  /// Whether it depends on labels, or on the trace context.
  [[nodiscard]] bool asks_labels() const;

  /// What can never be true here, and what to write instead; each a sentence.
  const std::vector<std::string>& complaints() const { return complaints_; }

  /// A term at one site.
  using BoundTerm = std::variant<Bound, Literal>;
  struct BoundStep {
    Step::Kind kind = Step::Kind::present;
    Comparison comparison = Comparison::eq;
    BoundTerm left;
    BoundTerm right;
    std::string text;  ///< as it was written, for messages
  };
  const std::vector<BoundStep>& steps() const { return steps_; }

 private:
  friend Condition bind(const Expression&, const Arguments&, std::vector<Capture>&);
  std::vector<BoundStep> steps_;
  std::vector<std::string> complaints_;
};

/// Finds out what `expression` speaks of at a site; what must be captured for it is added to
/// `captures`, in the order in which Fire::values will have it.
Condition bind(const Expression& expression, const Arguments& site, std::vector<Capture>& captures);

/// What the kernel side tests of a condition.
struct Compiled {
  vitrine_predicate predicate{};  ///< true at least wherever the condition is
  /// What it leaves to user space, and why; each a sentence. Empty: it is the whole condition.
  std::vector<std::string> left_over;
};

/// `site` and `captures` are those the condition was bound with; `selected` is what the kernel side
/// looks up, by index there; `key` is the one it hashes with.
Compiled compile(const Condition& condition, const Arguments& site,
                 std::span<const Capture> captures, std::span<const Selected> selected,
                 const vitrine_hash_key& key);

}  // namespace vitrine::query
