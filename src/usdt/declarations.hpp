// The part of C that provider definitions contain: types, declarators, declarations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "usdt/lexer.hpp"

namespace vitrine::usdt {

// CType: a type of C as a value, and its spelling.

struct CType;

/// One step of a declarator.
struct Derivation {
  enum class Kind { pointer, array, function };
  Kind kind = Kind::pointer;
  std::string qualifiers;         ///< of a pointer: "const", "const volatile" or empty
  std::string bound;              ///< of an array: "16", or empty
  std::vector<CType> parameters;  ///< of a function
  bool variadic = false;          ///< of a function
};

/// "pointer to function (int) returning int" is base "int", derivations {pointer, function}: from
/// the name outwards.
struct CType {
  enum class Kind { integer, floating, wide_integer, aggregate, function, empty, string, unknown };
  Kind kind = Kind::unknown;  ///< of the base; a name that is not defined here is `unknown`
  std::string qualifiers;     ///< of the base
  std::string base;           ///< canonical: "unsigned int", "struct foo"
  std::vector<Derivation> derivations;
};

/// Which of the two languages a spelling is for: D has `string`.
enum class Language { d, c };

/// As an abstract declarator: "const char *", "int (*)(void)".
std::string spelling(const CType& type, Language language);

/// What a parameter declared so really is: arrays and functions become pointers.
CType as_parameter(CType type);

/// With a pointer nearest the name that points to const: takes what the type itself takes, and more.
/// Not so pointers to functions and arrays.
CType pointing_to_const(CType type);

// BaseType: the words before a declarator, brought into one spelling.

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

// Declarations: the part of C that a provider definition contains.

struct DeclaredParameter {
  CType type;
  std::string name;  ///< empty: not named
  Location at;
};

struct ParameterList {
  std::vector<DeclaredParameter> parameters;
  bool variadic = false;
  Location variadic_at;
};

/// Parses from a token stream; what is wrong becomes the stream's error.
class Declarations {
 public:
  explicit Declarations(TokenStream& tokens) : tokens_(tokens) {}

  /// From '(' past ')'. `(void)` and `()` have no parameters.
  ParameterList parameters() { return parameters(0); }

  /// Whether a declaration may start here.
  [[nodiscard]] bool starts_here() const;

  /// One declaration outside providers, past its end. Types that it names are known from then on;
  /// anything else of it is passed over.
  void declaration();

  /// The type with the typedefs of the file replaced by what they name: `typedef char *str_t;` makes
  /// "char *" of str_t. A name that observers understand alike remains, and so does one that the
  /// file does not define.
  [[nodiscard]] CType resolved(CType type) const;

 private:
  ParameterList parameters(std::size_t depth);
  DeclaredParameter parameter(std::size_t depth);
  CType specifiers(bool bodies);
  void tagged(CType& type, bool bodies);
  void declarator(DeclaredParameter& into, std::size_t depth);
  void suffixes(std::vector<Derivation>& into, std::size_t depth);
  std::string bound();
  [[nodiscard]] bool is_type(const Token& token) const;
  void define_type();

  struct NamedType {
    CType::Kind kind = CType::Kind::unknown;  // of a parameter with this type
    CType type;                               // resolved; an empty base: known as a type, no more
  };

  TokenStream& tokens_;
  std::unordered_map<std::string, NamedType> types_;  // by typedef
};

}  // namespace vitrine::usdt
