#include "usdt/definition.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_descriptor.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "sandbox/files.hpp"
#include "usdt/parse.hpp"

namespace vitrine::usdt {
namespace {

std::string symbol(const char* prefix, const Provider& provider, const Probe& probe) {
  std::string out = prefix + provider.name + "___";
  for (const char c : probe.name) {
    if (c == '-') {
      out += "__";
    } else {
      out += c;
    }
  }
  return out;
}

/// Of ASCII, whatever the locale: names are C identifiers.
char upper(char c) {
  if (c >= 'a' && c <= 'z') return static_cast<char>(c - 'a' + 'A');
  return c == '-' || c == '.' ? '_' : c;
}

}  // namespace

std::string probe_symbol(const Provider& provider, const Probe& probe) {
  return symbol("__dtrace_", provider, probe);
}

std::string enabled_symbol(const Provider& provider, const Probe& probe) {
  return symbol("__dtraceenabled_", provider, probe);
}

std::string semaphore_symbol(const Provider& provider, const Probe& probe) {
  return symbol("__dtracesemaphore_", provider, probe);
}

std::string macro_name(const Provider& provider, const Probe& probe) {
  std::string out = provider.name + "_" + probe.name;
  for (char& c : out) c = upper(c);
  return out;
}

std::string probe_name(std::string_view identifier) {
  std::string out;
  for (std::size_t at = 0; at < identifier.size(); ++at) {
    if (identifier.substr(at, 2) == "__") {
      out += '-';
      ++at;
    } else {
      out += identifier[at];
    }
  }
  return out;
}

namespace {

/// Until the end, or one byte more than parse() takes.
Result<std::string> text_in(const FileDescriptor& file, const std::string& path) {
  auto text = read_all(file.get(), limits::definition_bytes + 1);
  if (!text) return sandbox::file_error(path, "read", text.error());
  return std::move(*text);
}

/// The preprocessor refuses a first line `#!`: what follows it, as the input of the preprocessor. Has no
/// descriptor if there is no such line.
Result<FileDescriptor> without_interpreter(const FileDescriptor& file, const std::string& path) {
  std::array<char, 2> first{};
  if (::pread(file.get(), first.data(), first.size(), 0) != 2 || first != std::array{'#', '!'})
    return FileDescriptor();
  const std::string text = TRY(text_in(file, path));
  std::string name;
  for (const char c : path)
    name += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  const std::size_t end = std::min(text.find('\n'), text.size() - 1);
  FileDescriptor rest(::memfd_create("definition", MFD_CLOEXEC));
  if (!rest) return sandbox::file_error(path, "read", errno);
  const std::string line = fmt::format("# 2 \"{}\"\n", name);
  for (const std::string_view part :
       {std::string_view(line), std::string_view(text).substr(end + 1)})
    if (const int error = write_all(rest.get(), part))
      return sandbox::file_error(path, "read", error);
  if (::lseek(rest.get(), 0, SEEK_SET) != 0) return sandbox::file_error(path, "read", errno);
  return rest;
}

Result<std::string> preprocessed(const DefinitionFile& file, const FileDescriptor& opened) {
  const FileDescriptor input = TRY(without_interpreter(opened, file.path));
  // D programs see __SUNW_D, as the preprocessor of dtrace defines it. The language is named because
  // a file `*.d` is of another D to gcc.
  std::vector<std::string> words{file.preprocessor, "-x", "c", "-D__SUNW_D=1"};
  if (input) {  // which is in no folder: the file's is the first one for #include "…"
    const std::size_t slash = file.path.rfind('/');
    words.insert(words.end(),
                 {"-iquote", slash == file.path.npos ? "." : file.path.substr(0, slash + 1)});
  }
  words.insert(words.end(), file.arguments.begin(), file.arguments.end());
  words.push_back(input ? "-" : file.path);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return sandbox::file_error(file.path, "read", errno);
  FileDescriptor from(ends[0]);
  FileDescriptor to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  if (input) posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, argv.front(), &actions, nullptr, argv.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return fail(error == ENOENT ? ErrorCode::not_found : ErrorCode::failed,
                fmt::format("the C preprocessor {} cannot be run: {}", file.preprocessor,
                            std::strerror(error)),
                "install it (Debian: cpp), or omit -C");
  if (!to.close()) return sandbox::file_error(file.path, "read", errno);
  Result<std::string> text = text_in(from, file.path);
  (void)from.close();  // what writes more than we take, ends now
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool too_much = text && text->size() > limits::definition_bytes;  // parse() reports it
  if (text && !too_much && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
    return fail(ErrorCode::failed,
                fmt::format("the C preprocessor {} failed on {}", file.preprocessor, file.path));
  return text;
}

Result<std::string> text_of(const DefinitionFile& file) {
  const FileDescriptor opened(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return sandbox::file_error(file.path, "read", errno);
  return file.preprocess ? preprocessed(file, opened) : text_in(opened, file.path);
}

}  // namespace

Result<Definition> read_definition(const DefinitionFile& file) {
  const auto text = TRY(text_of(file));
  return parse(text, file.path);
}

std::string stem(const std::string& path) {
  const std::string name(file_name(path));
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

}  // namespace vitrine::usdt
