// Publishes with vitrine's own library, on command: each line is the value of the label `n` that a
// second thread has in force from then on; an empty line: no labels. Answers "ok". With the argument `churn`: threads
// that live for two milliseconds start and end all the time, each with its TID as the label `tid`.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
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

void live_shortly() {
  static const vitrine::labels::Key key("tid");
  for (int i = 0; i < 5; ++i) {
    const vitrine::labels::Scope scope(key, std::to_string(gettid()));
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

void churn() {
  for (;;) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(live_shortly);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1)
    for (int i = 0; i < 4; ++i) std::thread(churn).detach();
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
