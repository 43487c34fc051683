// Declarations: the part of C that a provider definition contains.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "usdt/lexer.hpp"
#include "usdt/types.hpp"

namespace vitrine::usdt {

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

  TokenStream& tokens_;
  std::unordered_map<std::string, CType::Kind> types_;  // by typedef
};

}  // namespace vitrine::usdt
