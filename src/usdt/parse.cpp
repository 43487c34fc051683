#include "usdt/parse.hpp"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "base/limits.hpp"
#include "dof/dof.hpp"
#include "probe/types.hpp"
#include "usdt/declarations.hpp"
#include "usdt/definition.hpp"
#include "usdt/lexer.hpp"

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

namespace {

constexpr auto provider_advice =
    "a definition has this form: provider shop { probe request__start(int id, const char *path); "
    "};";

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : tokens_(text, path), types_(tokens_) {}

  Result<Definition> parse() {
    while (!tokens_.at_end()) item();
    if (!tokens_.error() && definition_.providers.empty())
      tokens_.fail("no provider is declared", provider_advice);
    if (!tokens_.error()) apply_pragmas(tokens_, definition_.providers);
    if (tokens_.error()) return tl::unexpected<Error>(*tokens_.error());
    return std::move(definition_);
  }

 private:
  void item() {
    if (tokens_.accept("provider")) return provider();
    if (tokens_.accept(";")) return;
    if (tokens_.is("probe"))
      return tokens_.fail("this probe is outside a provider", provider_advice);
    if (types_.starts_here()) return types_.declaration();
    if (tokens_.is("translator"))
      return tokens_.fail("translators belong to D programs, which vitrine does not run",
                          "move it to a D library; the provider needs only the types");
    if (tokens_.behind().text == ":")
      return tokens_.fail("clauses belong to D programs, which vitrine does not run",
                          "keep providers in a file of their own; vitrine trace traces the probes");
    tokens_.fail(fmt::format("{} begins neither a provider nor a declaration", tokens_.named()),
                 provider_advice);
  }

  void provider() {
    const Location at = tokens_.now().at;
    const std::string name = identifier("provider");
    if (tokens_.error()) return;
    if (name.back() >= '0' && name.back() <= '9')
      return tokens_.fail(at, fmt::format("the name of provider '{}' ends in a digit", name),
                          "use a letter or '_' at the end: observers append the process ID");
    const auto [known, is_new] = providers_.try_emplace(name, definition_.providers.size());
    if (is_new) {
      definition_.providers.push_back({name, {}, {}, at.line});
    }
    const std::size_t index = known->second;
    block_ = ++blocks_;
    tokens_.expect("{", fmt::format("provider {}", name), provider_advice);
    while (!tokens_.at_end() && !tokens_.is("}")) {
      if (!tokens_.accept("probe"))
        return tokens_.fail(fmt::format("unexpected {} instead of a probe", tokens_.named()),
                            "write probe name(parameters); or close the provider with };");
      probe(index);
    }
    tokens_.expect("}", fmt::format("the probes of provider {}", name), "close it with };");
    tokens_.expect(";", fmt::format("the '}}' of provider {}", name), "close it with };");
  }

  std::string identifier(const char* what) {
    const Location at = tokens_.now().at;
    if (!tokens_.is_identifier()) {
      tokens_.fail(fmt::format("unexpected {} instead of the name of a {}", tokens_.named(), what),
                   "a name consists of letters, digits and '_', and does not begin with a digit");
      return {};
    }
    std::string name = tokens_.now().text;
    const bool is_probe = std::string_view(what) == "probe";
    const std::size_t size = is_probe ? probe_name(name).size() : name.size();
    const std::size_t most = is_probe ? limits::dof_probe_name : limits::dof_provider_name;
    if (size > most) {
      tokens_.fail(
          at,
          fmt::format("the name of {} '{}…' has {} characters", what, name.substr(0, most), size),
          fmt::format("the limit of observers is {}: shorten the name", most));
      return {};
    }
    tokens_.advance();
    if (tokens_.is("-") || tokens_.is("`") || tokens_.is("."))
      tokens_.fail(fmt::format("unexpected {} in the name of {} '{}'", tokens_.named(), what, name),
                   "names are identifiers of C; in that of a probe '__' means '-'");
    return name;
  }

  void probe(std::size_t provider_index) {
    Probe probe;
    const Location at = tokens_.now().at;
    probe.line = at.line;
    probe.identifier = identifier("probe");
    probe.name = probe_name(probe.identifier);
    if (tokens_.error()) return;
    if (!tokens_.is("("))
      return tokens_.fail(
          fmt::format("missing '(' after probe {}, before {}", probe.identifier, tokens_.named()),
          fmt::format("write its parameters: probe {}(int id); or probe {}();", probe.identifier,
                      probe.identifier));
    const ParameterList native = types_.parameters();
    ParameterList translated = native;
    const bool translates = tokens_.accept(":");
    if (translates) translated = types_.parameters();
    tokens_.expect(";", fmt::format("probe {}", probe.identifier),
                   fmt::format("end it with ';': probe {}(…);", probe.identifier));
    check(probe, native);
    check_names(probe, native);
    check(probe, translated);
    if (tokens_.error()) return;

    for (const DeclaredParameter& one : native.parameters) {
      Parameter parameter;
      parameter.name = one.name;
      // The passed type is what locates the arguments: it must not depend on a typedef of this file.
      parameter.type = spelling(as_parameter(types_.resolved(one.type)), Language::d);
      parameter.c_type = spelling(pointing_to_const(as_parameter(one.type)), Language::c);
      probe.prototype.native.push_back(parameter.type);
      probe.parameters.push_back(std::move(parameter));
    }
    map(probe, translated, translates);
    if (!tokens_.error()) add(provider_index, std::move(probe), at);
  }

  /// What no observer could read.
  void check(const Probe& probe, const ParameterList& list) {
    const auto fail = [&](Location at, const std::string& what, const std::string& advice) {
      tokens_.fail(at, fmt::format("probe {}: {}", probe.identifier, what), advice);
    };
    if (list.variadic)
      return fail(list.variadic_at, "'...' is not a parameter", "declare each parameter");
    std::size_t number = 0;
    for (const DeclaredParameter& one : list.parameters) {
      const CType type = as_parameter(types_.resolved(one.type));
      const std::string spelled = spelling(as_parameter(one.type), Language::d);
      const std::string what =
          fmt::format("parameter {} ({}) ", ++number, spelled.substr(0, limits::dof_type_name));
      if (spelled.size() > limits::dof_type_name)
        return fail(
            one.at,
            what + fmt::format("has a spelling of more than {} characters", limits::dof_type_name),
            "use a typedef for the type");
      if (!type.derivations.empty()) continue;
      if (type.kind == CType::Kind::floating && type.base.ends_with("_Complex"))
        return fail(one.at, what + "occupies two registers", "pass its two parts");
      if (type.kind == CType::Kind::aggregate)
        return fail(one.at, what + "is passed by value, at a location that observers do not know",
                    "pass a pointer: " + spelled + " *");
      if (type.kind == CType::Kind::wide_integer)
        return fail(one.at, what + "occupies two registers", "pass two of 64 bits");
      if (type.kind == CType::Kind::function)
        return fail(one.at, what + "is a function", "pass a pointer: " + spelled + " *");
    }
  }

  /// A translated parameter may be named twice: (buf_t *b) : (bufinfo_t *b, fileinfo_t *b).
  void check_names(const Probe& probe, const ParameterList& native) {
    std::set<std::string_view> names;
    for (const DeclaredParameter& one : native.parameters)
      if (!one.name.empty() && !names.insert(one.name).second)
        return tokens_.fail(
            one.at,
            fmt::format("probe {}: two parameters are named '{}'", probe.identifier, one.name),
            "give each its own name");
  }

  void map(Probe& probe, const ParameterList& translated, bool translates) {
    for (std::size_t i = 0; i < translated.parameters.size(); ++i) {
      const DeclaredParameter& one = translated.parameters[i];
      std::size_t native = i;
      if (translates) {
        if (one.name.empty())
          return tokens_.fail(
              one.at,
              fmt::format("probe {}: translated parameter {} has no name", probe.identifier, i + 1),
              "name it after its source, the parameter before ':'");
        const auto found = std::find_if(probe.parameters.begin(), probe.parameters.end(),
                                        [&](const Parameter& of) { return of.name == one.name; });
        if (found == probe.parameters.end())
          return tokens_.fail(
              one.at,
              fmt::format("probe {}: translated parameter '{}' is not declared in its "
                          "prototype",
                          probe.identifier, one.name),
              "name one of the parameters before ':'");
        native = static_cast<std::size_t>(found - probe.parameters.begin());
      }
      probe.prototype.translated.push_back(shown(one.type, probe.prototype.native[native]));
      probe.prototype.argument_map.push_back(static_cast<std::uint8_t>(native));
    }
  }

  /// The name of a typedef where observers take its meaning from the passed type.
  [[nodiscard]] std::string shown(const CType& type, const std::string& passed) const {
    std::string written = spelling(as_parameter(type), Language::d);
    std::string meaning = spelling(as_parameter(types_.resolved(type)), Language::d);
    const bool is_known = probe::c_type(written, Machine::x86_64).has_value();
    return is_known || meaning != passed ? meaning : written;
  }

  void add(std::size_t provider_index, Probe probe, Location at) {
    Provider& provider = definition_.providers[provider_index];
    if (++probe_count_ > limits::definition_probes)
      return tokens_.fail(at, fmt::format("more than {} probes", limits::definition_probes),
                          "spread them over several files");
    // Two spellings can come to one symbol: provider a_ has b, provider a has _b.
    const auto [known, is_new] = symbols_.try_emplace(
        probe_symbol(provider, probe), Place{provider_index, provider.probes.size(), at, block_});
    if (is_new) {
      provider.probes.push_back(std::move(probe));
      return;
    }
    const Place& first = known->second;
    const Provider& other = definition_.providers[first.provider];
    const std::string there = tokens_.place(first.at);
    if (first.provider != provider_index)
      return tokens_.fail(
          at,
          fmt::format(
              "probe {} of provider {} has the symbol {}, like probe {} of provider {} ({})",
              probe.identifier, provider.name, known->first, other.probes[first.probe].identifier,
              other.name, there),
          "rename one of them");
    if (first.block == block_)
      return tokens_.fail(at,
                          fmt::format("probe {} of provider {} is declared twice (first {})",
                                      probe.identifier, provider.name, there),
                          "remove one of them");
    // A provider that is opened again repeats the same of its probes, as D has it.
    if (other.probes[first.probe].prototype != probe.prototype)
      return tokens_.fail(
          at,
          fmt::format("probe {} of provider {} has a different prototype than before (first {})",
                      probe.identifier, provider.name, there),
          "make both the same, or remove one");
  }

  struct Place {
    std::size_t provider, probe;
    Location at;
    std::size_t block;
  };

  TokenStream tokens_;
  Declarations types_;
  Definition definition_;
  std::unordered_map<std::string, std::size_t> providers_;  // index by name
  std::unordered_map<std::string, Place> symbols_;
  std::size_t blocks_ = 0, block_ = 0, probe_count_ = 0;
};

}  // namespace

Result<Definition> parse(std::string_view text, const std::string& path) {
  if (text.size() > limits::definition_bytes)
    return fail(ErrorCode::limit,
                fmt::format("{}: larger than {} MiB", path, limits::definition_bytes >> 20),
                "give a provider definition");
  if (text.starts_with("\x7f"
                       "ELF"))
    return fail(ErrorCode::malformed, path + ": an ELF file, not a provider definition",
                "give the .d file after -s; objects follow the options");
  return Parser(text, path).parse();
}

}  // namespace vitrine::usdt
