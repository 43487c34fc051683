// Subjects: what a condition, a list of things to show or a grouping speaks of. Written once for
// many sites, bound to each site before the first fire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "probe/evaluate.hpp"
#include "probe/operand.h"
#include "probe/probe.hpp"
#include "query/calculation.h"
#include "query/lexer.hpp"

namespace vitrine::query {

/// A number, or text. true and false are the numbers 1 and 0.
using Literal = std::variant<Number, std::string>;

/// How an argument is taken.
enum class Form : std::uint8_t {
  natural,  ///< by its type: the text a string points to; a number where no type is known
  number,   ///< the argument itself, as it was passed
  text,     ///< the text that the argument points to
  bytes     ///< the bytes that the argument points to
};

/// One step of arithmetic as it was written, in postfix order (calculation.h).
struct WrittenStep {
  vitrine_calculation kind = VITRINE_CALCULATE_PUSH;
  // PUSH: an argument by its number or its name, or the constant.
  std::optional<std::uint32_t> index;
  std::string name;
  std::uint64_t constant = 0;
  std::uint8_t size = 8;   ///< LOAD
  bool is_signed = false;  ///< LOAD, and of the constant

  bool operator==(const WrittenStep&) const = default;
};

/// A subject as it was written.
struct Subject {
  enum class Kind : std::uint8_t {
    argument,        ///< argN, N in `index`
    named_argument,  ///< arg.NAME
    word,            ///< a bare word: an argument's name, or else a label's key
    label,           ///< label.KEY, label["KEY"]
    pid,
    tid,
    cpu,
    comm,
    probe,  ///< provider:name
    trace_id,
    span_id,
    module,     ///< path of the file that the probe is in
    site,       ///< address of the site in it
    function,   ///< around the site
    uid,        ///< of the thread that fired, in the initial user namespace
    cgroup,     ///< path of its control group
    container,  ///< ID of its container
    stack,      ///< functions that led to the fire
    calculated  ///< arithmetic on arguments: `calculation`
  };
  /// Of text and bytes: how many. An argument by number, one by name, a number, or nothing.
  struct Length {
    std::optional<std::uint32_t> argument;
    std::string name;
    std::uint32_t constant = 0;
  };
  Kind kind = Kind::word;
  std::uint32_t index = 0;
  std::string name;           ///< word, named_argument, label
  Form form = Form::natural;  ///< of an argument
  Length length;              ///< bytes(arg1, arg2), bytes(arg1, size), bytes(arg1, 16)
  std::vector<WrittenStep> calculation;
  std::size_t at = 0;  ///< where in the text, for messages
};

/// One step of arithmetic at a site.
struct CalculationStep {
  vitrine_calculation kind = VITRINE_CALCULATE_PUSH;
  std::optional<std::uint32_t> argument;  ///< PUSH: of this one, else the constant
  std::uint64_t constant = 0;
  std::uint8_t size = 8;   ///< LOAD
  bool is_signed = false;  ///< LOAD, and how operands are taken

  bool operator==(const CalculationStep&) const = default;
};

/// Arithmetic on the arguments of a site.
struct Calculation {
  std::vector<CalculationStep> steps;  ///< empty: none
  bool is_signed = false;              ///< the result
  std::uint8_t size = 8;               ///< bytes of the widest operand: in how many it is printed

  bool operator==(const Calculation&) const = default;
};

/// One thing to be captured at each fire of a site.
struct Capture {
  std::uint32_t argument = 0;  ///< unless it is calculated
  Form form = Form::number;    ///< never natural
  /// Of text and bytes: how long; neither: up to the NUL. At most one is given.
  std::uint32_t length = 0;
  std::optional<std::uint32_t> length_argument;
  bool until_nul = false;  ///< of text with a length: a NUL ends it before
  Calculation calculation{};
  std::string problem{};  ///< why it can never be captured

  [[nodiscard]] bool is_calculated() const { return !calculation.steps.empty(); }
  bool operator==(const Capture&) const = default;
};

/// What is known of the arguments of a site.
struct Arguments {
  std::span<const vitrine_operand> operands;  ///< one an argument; VITRINE_NO_OPERAND: not decoded
  std::span<const probe::ArgumentType> types;
};

/// The type of argument `index`, or null.
const probe::ArgumentType* type_of(const Arguments& site, std::uint32_t index);

/// The argument that is called `name`, if one is.
std::optional<std::uint32_t> argument_named(const Arguments& site, std::string_view name);

/// Argument `index` as `form` asks for it: natural becomes number, text or bytes, and a length that
/// the type knows is filled in.
Capture capture_of(const Arguments& site, std::uint32_t index, Form form = Form::natural);

/// The slot of `wanted` in `captures`, added at the end when it is not there yet.
std::uint32_t slot_of(const Capture& wanted, std::vector<Capture>& captures);

/// A subject at one site.
struct Bound {
  enum class Kind : std::uint8_t {
    nothing,  ///< the site has no such argument
    capture,
    label,
    pid,
    tid,
    cpu,
    comm,
    probe,
    trace_id,
    span_id,
    module,
    site,
    function,
    uid,
    cgroup,
    container,
    stack
  };
  Kind kind = Kind::nothing;
  std::uint32_t slot = 0;  ///< capture
  std::string key;         ///< label
  std::uint8_t width = 8;  ///< bytes of a number, as hex() prints it

  bool operator==(const Bound&) const = default;
};

/// The argument that a subject speaks of, if it speaks of one that the site has.
std::optional<std::uint32_t> argument_of(const Subject& subject, const Arguments& site);

/// The number or the name of the first argument that arithmetic asks for and the site lacks.
std::optional<std::string> missing_operand(const Subject& subject, const Arguments& site);

/// Whether a capture reads the argument, or needs it for its address or length.
bool reads(const Capture& capture, std::uint32_t argument);

/// Finds out what `subject` is at a site; what must be captured for it is added to `captures`.
Bound bind(const Subject& subject, const Arguments& site, std::vector<Capture>& captures);

/// What belongs to the thread that fired, and must be looked up in its label sets.
struct Selected {
  enum class Kind : std::uint8_t { label, trace_id, span_id };
  Kind kind = Kind::label;
  std::string key;  ///< label

  bool operator==(const Selected&) const = default;
};

/// Adds what `subject` needs looked up, if anything, once.
void select(const Bound& subject, std::vector<Selected>& selected);

/// The labels of the thread that fired.
class Labels {
 public:
  virtual ~Labels() = default;
  virtual std::optional<std::string_view> value(std::string_view key) const = 0;
};

/// A fire, as conditions and reductions look at it.
struct Fire {
  std::string_view probe;                ///< provider:name
  std::string_view module;               ///< path of its file; empty: not known
  std::string_view function;             ///< around its site; empty: not known
  std::uint64_t site = 0;                ///< address in the file
  std::span<const probe::Value> values;  ///< one a capture of its site
  const Labels* labels = nullptr;        ///< null: none
  std::string_view comm;
  std::string_view cgroup;                          ///< path, or its number; empty: not asked for
  std::string_view container;                       ///< empty: none
  const std::vector<std::string>* stack = nullptr;  ///< functions, the innermost first
  std::string_view trace_id;                        ///< lower-case hex; empty: none
  std::string_view span_id;
  std::uint64_t time_ns = 0;           ///< of any clock that does not jump
  std::uint64_t process_start_ns = 0;  ///< distinguishes processes with the same number
  std::int32_t pid = 0;
  std::int32_t tid = 0;
  std::uint32_t cpu = 0;
  std::uint32_t uid = 0;
};

/// What `subject` is at this fire. Nothing: it is not there (no such label, no such argument);
/// ValueError: it is, but could not be read.
std::optional<probe::Value> value_of(const Bound& subject, const Fire& fire);

}  // namespace vitrine::query
