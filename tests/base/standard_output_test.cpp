// Standard output that is non-blocking loses nothing.
#include "base/standard_output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace vitrine {
namespace {

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

/// A child that writes to a small pipe whose writing end is non-blocking; its exit status is the error of its
/// output.
class Writer {
 public:
  static constexpr int not_taken = 255;  ///< the status where the reader took not all

  explicit Writer(const std::string& text, bool hurried = false) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    pid_ = ::fork();
    if (pid_ == 0) {
      std::signal(SIGPIPE, SIG_IGN);
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      StandardOutput& out = StandardOutput::instance();
      if (hurried) out.set_hurried([] { return true; });
      const bool written = out.write(text) && out.flush();
      ::_exit(written ? 0 : out.error() != 0 ? out.error() : not_taken);
    }
    ::close(ends[1]);
    out_ = ends[0];
  }
  ~Writer() { close(); }

  std::string read() const {
    std::string text;
    char piece[1000];
    for (ssize_t got = 0; (got = ::read(out_, piece, sizeof piece)) > 0;)
      text.append(piece, static_cast<std::size_t>(got));
    return text;
  }
  void close() {
    if (out_ >= 0) ::close(out_);
    out_ = -1;
  }
  int status() const {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
};

TEST(StandardOutput, WaitsForTheReaderOfANonBlockingPipe) {
  const std::string text = lines(100'000);
  Writer writer(text);
  EXPECT_EQ(writer.read(), text);
  EXPECT_EQ(writer.status(), 0);
}

TEST(StandardOutput, KnowsWhyAWriteFailed) {
  Writer writer(lines(100'000));
  writer.close();
  EXPECT_EQ(writer.status(), EPIPE);
}

TEST(StandardOutput, OfAnInterruptedCommandDoesNotWaitForAReaderThatTakesNothing) {
  const Writer writer(lines(100'000), true);
  EXPECT_EQ(writer.status(), Writer::not_taken);
}

}  // namespace
}  // namespace vitrine
