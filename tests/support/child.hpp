// Child: a real process under test. Killed and reaped when the test ends, however it ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace vitrine::test {

struct ChildOptions {
  std::vector<std::string> env;  ///< "NAME=value", added to ours
  bool capture_stderr = true;    ///< false: goes to the test's own
  uid_t uid = 0;                 ///< other than 0: drop to it (and gid) before exec
  pid_t pid = 0;                 ///< other than 0: the number to have, which is free (wants root)
};

class Child {
 public:
  /// Starts `argv[0]` (searched in PATH) with pipes on its standard streams.
  static Child spawn(std::vector<std::string> argv, ChildOptions options = {});

  Child(Child&&) noexcept;
  Child& operator=(Child&&) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }

  /// The next line of standard output, without its newline; nullopt at end or after `timeout`.
  std::optional<std::string> read_line(
      std::chrono::milliseconds timeout = std::chrono::seconds(20));

  /// Lines up to, and without, the one that equals `last`. Fails the test when it does not come.
  std::vector<std::string> read_until(const std::string& last);

  void write(const std::string& text);  ///< to its standard input
  void close_stdin();
  void signal(int number) const;

  /// Waits for its end. Returns the exit status, or 128 + signal; nullopt after `timeout`.
  std::optional<int> wait(std::chrono::milliseconds timeout = std::chrono::seconds(20));

  /// Everything it still prints to standard output / error until it closes them.
  std::string rest_of_output(std::chrono::milliseconds timeout = std::chrono::seconds(20));
  std::string rest_of_errors(std::chrono::milliseconds timeout = std::chrono::seconds(20));

 private:
  Child() = default;
  void end() noexcept;

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string buffer_;
};

/// Runs a command to its end.
struct Outcome {
  int status = -1;  ///< exit status, or 128 + signal; -1: timed out (and killed)
  std::string out;
  std::string err;
};
Outcome run(std::vector<std::string> argv, ChildOptions options = {},
            std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace vitrine::test
