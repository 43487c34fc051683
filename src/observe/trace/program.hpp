// TraceProgram: what fires of sites with one argument list mean, given to the kernel and read back.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/redaction.hpp"
#include "base/result.hpp"
#include "bpf/event.hpp"
#include "bpf/wire/trace.h"
#include "observe/probes/probe_symbols.hpp"
#include "probe/evaluate.hpp"
#include "query/expression.hpp"
#include "query/reduction.hpp"
#include "query/show.hpp"

namespace vitrine::observe {

/// What is asked of every fire.
struct TraceQuery {
  std::optional<query::Expression> where;
  std::vector<query::Item> show;  ///< empty: all arguments, by their types
  std::optional<query::ReductionQuery> reduction;
  /// Of a latency: shows each pair that took longer, and adds nothing up.
  std::optional<std::chrono::nanoseconds> slower;
  std::size_t string_bytes = 256;  ///< kept of one string; at most VITRINE_CAPTURE_BYTES
  Redaction redaction;             ///< of what is shown and grouped by; `where` asks true values
};

/// Whether its condition or its groups may speak of labels.
bool wants_labels(const TraceQuery& query);

/// Whether fires are added up, not shown.
inline bool adds_up(const TraceQuery& query) {
  return query.reduction && !query.slower;
}

/// Whether it asks for the functions that probes are in.
bool wants_functions(const TraceQuery& query);
/// Whether it asks for users, control groups or containers.
bool wants_origins(const TraceQuery& query);
bool wants_stacks(const TraceQuery& query);

/// Labels that `query` may ask for and the kernel can look up (a key has at most VITRINE_KEY_BYTES),
/// by explicit name first; at most VITRINE_SELECTED_LABELS.
std::vector<query::Selected> selected_labels(const TraceQuery& query);

/// What is shown of a fire.
struct ShownArgument {
  std::string name;  ///< empty: not known
  query::Bound subject;
  query::Format format = query::Format::plain;
};

/// How the kernel adds up the fires of a program.
struct KernelReduction {
  __u32 role = VITRINE_COUNT;
  std::uint32_t number = 0;         ///< of the rows: vitrine_site_program::probe
  std::uint32_t pair = 0;           ///< vitrine_site_program::pair
  std::vector<std::uint8_t> group;  ///< captures
  std::uint8_t group_labels = 0;    ///< bit i: selected label i
};

class TraceProgram {
 public:
  using Role = query::BoundReduction::Role;

  /// `probe`: "provider:name". `symbols`: of the site's file.
  TraceProgram(std::string probe, const probe::Site& site, ProbeSymbols& symbols,
               const TraceQuery& query, Role role);
  TraceProgram(const TraceProgram&) = delete;
  TraceProgram& operator=(const TraceProgram&) = delete;

  /// Equal for sites that one program serves.
  [[nodiscard]] const std::string& identity() const { return identity_; }

  [[nodiscard]] const std::string& probe() const { return probe_; }
  [[nodiscard]] const std::vector<ShownArgument>& shown() const { return shown_; }
  [[nodiscard]] const query::Condition& condition() const { return condition_; }
  [[nodiscard]] const query::BoundReduction* reduction() const {
    return reduction_ ? &*reduction_ : nullptr;
  }
  [[nodiscard]] Role role() const { return role_; }

  /// Of the arguments that have one.
  [[nodiscard]] std::vector<std::string> argument_names() const;

  /// Whether all arguments that `subject` speaks of are there; a bare word may be a label.
  [[nodiscard]] bool has_arguments(const query::Subject& subject) const;
  [[nodiscard]] std::size_t argument_count() const {
    return operands_.size() - (has_frame_ ? 1 : 0);
  }
  [[nodiscard]] bool is_function() const { return is_function_; }

  /// Why the value that a reduction adds up can never be found at this site; empty: it can, or none is added up.
  [[nodiscard]] std::string value_problem() const;

  /// Arguments that cannot be decoded, and why: "argument 2 (%xmm0): …".
  [[nodiscard]] std::vector<std::string> problems() const;

  /// All that the kernel is given of it. `reduction`: how its fires are added up there; none: each
  /// is an event.
  [[nodiscard]] vitrine_site_program wire(const query::Compiled& condition,
                                          const std::optional<KernelReduction>& reduction) const;

  /// The condition for the kernel.
  [[nodiscard]] query::Compiled compile_condition(std::span<const query::Selected> selected,
                                                  const vitrine_hash_key& key) const;

  // Of a capture:
  [[nodiscard]] bool is_integer(std::uint32_t slot) const;  ///< a number of at most 64 bits
  [[nodiscard]] bool is_key(std::uint32_t slot) const;      ///< that, or text
  [[nodiscard]] bool is_signed(std::uint32_t slot) const;
  /// What decides which value 64 bits of it are. Of an integer that is its sign alone, and only where all 64 are used:
  /// captures of fewer bytes are extended.
  [[nodiscard]] std::string reading(std::uint32_t slot) const;
  /// The value that 64 bits of it are.
  [[nodiscard]] probe::Value key(std::uint32_t slot, std::uint64_t bits) const;

  /// One value a capture.
  [[nodiscard]] std::vector<probe::Value> values(std::span<const bpf::Captured> captured) const;

  /// Whether the capture is of an argument that is not to be shown.
  [[nodiscard]] bool hides(std::uint32_t slot) const { return hidden_[slot]; }

 private:
  [[nodiscard]] query::Arguments arguments() const { return {operands_, types_}; }
  bool take_value(const query::Capture& wanted, std::uint32_t slot,
                  vitrine_site_program& program) const;
  static probe::Value number(const query::Calculation& calculation, std::uint64_t bits);
  [[nodiscard]] bool is_plain(const query::Capture& capture) const;
  [[nodiscard]] bool is_unsigned_word(std::uint32_t slot) const;  ///< of 64 bits; plain
  void bind(const TraceQuery& query);
  void bind_shown(const TraceQuery& query);
  void fit_kept();
  query::Bound bind_frame();
  bool has_condition(const TraceQuery& query) const;
  [[nodiscard]] probe::Value value(const query::Capture& capture,
                                   const bpf::Captured& captured) const;
  [[nodiscard]] probe::Value unread(const query::Capture& capture,
                                    const bpf::Captured& captured) const;

  std::string probe_;
  Role role_;
  std::vector<std::string> texts_;         ///< of the arguments
  std::vector<vitrine_operand> operands_;  ///< one each; VITRINE_NO_OPERAND: not decoded
  std::vector<std::string> errors_;        ///< one each: why not
  std::vector<probe::ArgumentType> types_;
  bool is_function_ = false;
  bool has_frame_ = false;  ///< the last operand is the stack pointer, which identifies the call
  std::uint64_t pushed_by_call_ = 0;
  bool is_within_call_ = false;  ///< the return address is still on the stack
  std::size_t string_bytes_;
  std::vector<query::Capture> captures_;  ///< first those of the condition
  std::size_t tested_ = 0;                ///< how many those are
  std::vector<bool> hidden_;              ///< one a capture
  std::vector<ShownArgument> shown_;
  query::Condition condition_;
  std::optional<query::BoundReduction> reduction_;
  std::string identity_;
};

// Words of a condition that were probably meant as arguments.

/// A sentence for each bare word of `where` that no program has for an argument, so that it is taken
/// for a label, and that looks like an argument: it is compared with numbers by size, or spelt like
/// one.
std::vector<std::string> doubtful_words(const query::Expression& where,
                                        const std::vector<std::unique_ptr<TraceProgram>>& programs);

/// What a bare word may be.
enum class BareWord : std::uint8_t {
  label,            ///< whatever it is
  unlike_argument,  ///< a label, but not one that is spelt almost like an argument
  argument          ///< nothing else: and both the starts and the ends of a latency must have it
};

/// An error for the first item of `items` that no program has a meaning for: an argument by number
/// or `arg.NAME`, a word that can only be an argument (in a function that follows a pointer, in
/// arithmetic), or one that `bare` excludes. `option`: of the command, for the message.
Result<void> require_names(std::string_view option, std::span<const query::Item> items,
                           const std::vector<std::unique_ptr<TraceProgram>>& programs,
                           BareWord bare);

/// The same of what is added up: whatever it looks like, labels are rarely numbers.
std::vector<std::string> doubtful_words(const query::Item& value,
                                        const std::vector<std::unique_ptr<TraceProgram>>& programs);

}  // namespace vitrine::observe
