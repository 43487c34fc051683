// Publishes with vitrine's own library, on command: each line is the value of the label `n` that a
// second thread has in force from then on; an empty line: no labels. Answers "ok".
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vitrine/labels.hpp>

namespace {

std::mutex mutex;
std::condition_variable turn;
std::optional<std::string> wanted;

void work() {
  const vitrine::labels::Key key("n");
  std::optional<vitrine::labels::Attach> scope;
  for (std::unique_lock lock(mutex);;) {
    turn.wait(lock, [] { return wanted.has_value(); });
    scope.reset();
    if (!wanted->empty()) scope.emplace(vitrine::labels::Set::of({{key, *wanted}}));
    wanted.reset();
    turn.notify_all();
  }
}

}  // namespace

int main() {
  std::thread(work).detach();
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::unique_lock lock(mutex);
    wanted = line;
    turn.notify_all();
    turn.wait(lock, [] { return !wanted.has_value(); });
    std::cout << "ok" << std::endl;
  }
  std::_Exit(0);
}
