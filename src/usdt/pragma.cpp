#include "usdt/pragma.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>

#include "dof/stability.hpp"

namespace vitrine::usdt {
namespace {

constexpr auto attributes_advice =
    "write #pragma D attributes Evolving/Evolving/Common provider NAME "
    "provider|module|function|name|args";

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while ((at = line.find_first_not_of(" \t\r", at)) != std::string::npos) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

template <std::size_t N>
std::optional<std::uint8_t> number_of(const std::array<std::string_view, N>& names,
                                      std::string_view word) {
  for (std::size_t i = 0; i < N; ++i)
    if (same(names[i], word)) return static_cast<std::uint8_t>(i);
  return std::nullopt;
}

template <std::size_t N>
std::string list(const std::array<std::string_view, N>& names) {
  return fmt::format("valid names are {}", fmt::join(names, ", "));
}

std::string quoted(const std::string& word) {
  constexpr std::size_t most = 40;
  return word.size() > most ? fmt::format("'{}…'", word.substr(0, most))
                            : fmt::format("'{}'", word);
}

class Attributes {
 public:
  Attributes(TokenStream& tokens, Location at) : tokens_(tokens), at_(at) {}

  /// words: those behind `attributes`.
  void apply(const std::vector<std::string>& words, std::vector<Provider>& providers) {
    if (words.size() != 4 || words[1] != "provider")
      return tokens_.fail(at_, "expected the attributes of a provider", attributes_advice);
    Stability stability;
    if (!read(words[0], stability)) return;
    const auto provider = std::find_if(providers.begin(), providers.end(),
                                       [&](const Provider& one) { return one.name == words[2]; });
    if (provider == providers.end())
      return tokens_.fail(at_, fmt::format("the file declares no provider {}", quoted(words[2])),
                          "use the name of a declared provider");
    if (dof::Stability* component = component_of(provider->stabilities, words[3])) {
      *component = stability;
    } else {
      tokens_.fail(
          at_, fmt::format("{} is not a part of a provider that has attributes", quoted(words[3])),
          "valid parts are provider, module, function, name, args");
    }
  }

 private:
  using Stability = dof::Stability;

  bool read(const std::string& text, Stability& out) {
    const std::size_t first = text.find('/');
    const std::size_t second = first == std::string::npos ? first : text.find('/', first + 1);
    if (second == std::string::npos) {
      tokens_.fail(at_, fmt::format("{} is not three attributes", quoted(text)), attributes_advice);
      return false;
    }
    return part(dof::stability_names, "stability", text.substr(0, first), out.name) &&
           part(dof::stability_names, "stability", text.substr(first + 1, second - first - 1),
                out.data) &&
           part(dof::dependency_class_names, "dependency class", text.substr(second + 1),
                out.dependency_class);
  }

  template <std::size_t N>
  bool part(const std::array<std::string_view, N>& names, const char* kind, const std::string& word,
            std::uint8_t& out) {
    const auto number = number_of(names, word);
    if (!number) {
      tokens_.fail(at_, fmt::format("{} is not a {}", quoted(word), kind), list(names));
      return false;
    }
    out = *number;
    return true;
  }

  static Stability* component_of(dof::Stabilities& of, std::string_view name) {
    if (same(name, "provider")) return &of.provider;
    if (same(name, "module")) return &of.module;
    if (same(name, "function")) return &of.function;
    if (same(name, "name")) return &of.name;
    if (same(name, "args")) return &of.args;
    return nullptr;
  }

  TokenStream& tokens_;
  Location at_;
};

}  // namespace

void apply_pragmas(TokenStream& tokens, std::vector<Provider>& providers) {
  for (const Token& pragma : tokens.pragmas()) {
    std::vector<std::string> words = words_of(pragma.text.substr(std::string("pragma").size()));
    if (words.empty()) continue;
    if (words[0] == "error")
      return tokens.fail(pragma.at, fmt::format("#{}", pragma.text.substr(0, 200)),
                         "the file itself contains it");
    if (words[0] != "D") continue;  // of a compiler
    const std::string what = words.size() > 1 ? words[1] : "";
    if (what == "attributes") {
      words.erase(words.begin(), words.begin() + 2);
      Attributes(tokens, pragma.at).apply(words, providers);
    } else if (what != "depends_on" && what != "option" && what != "binding" && what != "ident") {
      tokens.fail(pragma.at, fmt::format("unknown pragma: #pragma D {}", quoted(what)),
                  "valid pragmas are attributes, depends_on, option, binding");
    }
    if (tokens.error()) return;
  }
}

}  // namespace vitrine::usdt
