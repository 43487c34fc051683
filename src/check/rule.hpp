// Rules for publishers: what one is, the tables of all, and how much is shown of a long list.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "observe/labels/labels.hpp"

namespace vitrine::check {

// Rule: one requirement on a publisher, and the check whether it holds.
//
// The text of a rule is data (Requirement), so that lists, documents and reports are made from the
// same table; what it asks is one small function. Documents and readers disagree: a rule that no
// document demands, but without which a known reader fails, is `advised` and names that reader.

/// A document that a publisher may follow.
enum class Profile : std::uint8_t {
  custom_labels_v0,
  custom_labels_v1,
  otep_4947,  ///< thread context
  otep_4719,  ///< process context
  sdt,
  dof,
};
inline constexpr Profile all_profiles[] = {Profile::custom_labels_v0,
                                           Profile::custom_labels_v1,
                                           Profile::otep_4947,
                                           Profile::otep_4719,
                                           Profile::sdt,
                                           Profile::dof};
std::string_view name(Profile profile);  ///< "custom-labels-v0", …

/// A set of them.
class Profiles {
 public:
  constexpr Profiles() = default;
  constexpr Profiles(std::initializer_list<Profile> all) {
    for (const Profile one : all) add(one);
  }
  constexpr void add(Profile one) { bits_ = static_cast<std::uint8_t>(bits_ | bit(one)); }
  constexpr void add(Profiles all) { bits_ = static_cast<std::uint8_t>(bits_ | all.bits_); }
  constexpr void remove(Profiles all) { bits_ = static_cast<std::uint8_t>(bits_ & ~all.bits_); }
  [[nodiscard]] constexpr bool has(Profile one) const { return (bits_ & bit(one)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr Profiles common(Profiles other) const {
    Profiles both;
    both.bits_ = static_cast<std::uint8_t>(bits_ & other.bits_);
    return both;
  }
  [[nodiscard]] std::vector<std::string_view> names() const;

 private:
  // How a worker's response has it (base/pack.hpp): a bit that no profile has means nothing.
  template <class T>
  requires std::same_as<std::remove_const_t<T>, Profiles>
  friend constexpr auto fields(T& profiles) { return std::tie(profiles.bits_); }

  static constexpr unsigned bit(Profile one) { return 1U << static_cast<unsigned>(one); }
  std::uint8_t bits_ = 0;
};
inline constexpr Profiles labels_profiles{Profile::custom_labels_v0, Profile::custom_labels_v1};
inline constexpr Profiles every_profile{Profile::custom_labels_v0,
                                        Profile::custom_labels_v1,
                                        Profile::otep_4947,
                                        Profile::otep_4719,
                                        Profile::sdt,
                                        Profile::dof};

enum class Weight : std::uint8_t {
  required,  ///< a document requires it
  advised,   ///< a known reader needs it
};

// Phrases that the tables of rules repeat.
inline constexpr auto required = Weight::required;
inline constexpr auto advised = Weight::advised;
inline constexpr Profiles otep_4947{Profile::otep_4947};
inline constexpr Profiles otep_4719{Profile::otep_4719};
inline constexpr std::string_view every_reader = "all";

struct Requirement {
  std::string_view id;  ///< "labels.slot-exported": kept for ever once it is published
  Profiles profiles;    ///< to which it belongs
  Weight weight;
  std::string_view text;     ///< what must hold, as a sentence without a full stop
  std::string_view source;   ///< the document, and where in it
  std::string_view remedy;   ///< what to do when it does not hold, in one line
  std::string_view readers;  ///< known ones that fail then
};

enum class Verdict : std::uint8_t {
  holds,
  fails,
  does_not_apply,
  undecided,  ///< what would decide is not there to be seen
};
std::string_view name(Verdict verdict);  ///< "holds", "fails", "does-not-apply", "undecided"

struct Outcome {
  Verdict verdict = Verdict::undecided;
  /// What there was, as a sentence without a full stop. Its length is not bounded.
  std::string seen;
  std::string remedy;  ///< where it is not the requirement's
};

inline Outcome holds(std::string seen) {
  return {Verdict::holds, std::move(seen), {}};
}
inline Outcome fails(std::string seen, std::string remedy = {}) {
  return {Verdict::fails, std::move(seen), std::move(remedy)};
}
inline Outcome does_not_apply(std::string why) {
  return {Verdict::does_not_apply, std::move(why), {}};
}
inline Outcome undecided(std::string why, std::string remedy = {}) {
  return {Verdict::undecided, std::move(why), std::move(remedy)};
}

template <class Subject>
struct Rule {
  Requirement requirement;
  Outcome (*ask)(const Subject& subject);
};

// The tables of rules, one an area; and all of them as one list.

struct FileSubject;
struct ContextSubject;
struct ProcessSubject;

std::span<const Rule<FileSubject>> label_file_rules();
std::span<const Rule<FileSubject>> thread_context_file_rules();
std::span<const Rule<FileSubject>> sdt_rules();
std::span<const Rule<FileSubject>> dof_rules();
std::span<const Rule<ContextSubject>> process_context_rules();
std::span<const Rule<ContextSubject>> thread_schema_rules();
std::span<const Rule<ProcessSubject>> process_rules();

/// What does not hold of a reading: a sentence without a full stop, or a label of the reading.
using Breach = std::variant<std::string, const format::Label*>;

/// A rule about one reading of one thread: asked of each, and counted.
struct ReadingRule {
  Requirement requirement;
  /// Nullopt: it holds.
  std::optional<Breach> (*broken)(const observe::ThreadLabels& reading);
};

std::span<const ReadingRule> live_label_rules();
std::span<const ReadingRule> live_record_rules();

/// Every rule, in the order in which they are listed.
std::vector<const Requirement*> all_requirements();

// Counted: a check of many things; its outcome is how many did not hold, and the first of them.

class Counted {
 public:
  /// `things`: what they are, many: "sites".
  explicit Counted(const char* things) : things_(things) {}

  void good() { ++all_; }
  void bad(std::string what) {
    ++all_;
    if (bad_++ == 0) first_ = std::move(what);
  }

  /// Holds when none was bad; does not apply when there was nothing to ask.
  [[nodiscard]] Outcome outcome() const {
    if (all_ == 0) return does_not_apply(fmt::format("the file has no {}", things_));
    if (bad_ == 0) return holds(fmt::format("{} {}", all_, things_));
    return fails(fmt::format("{} of {} {}; the first: {}", bad_, all_, things_, first_));
  }

 private:
  const char* things_;
  std::size_t all_ = 0, bad_ = 0;
  std::string first_;
};

}  // namespace vitrine::check
