// A plug-in whose coroutine has labels, and suspends for good within them.
#include <coroutine>
#include <vitrine/coroutine.hpp>
#include <vitrine/labels.hpp>

namespace labels = vitrine::labels;

namespace {

struct Task {
  struct promise_type : labels::CoroutineLabels {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    auto initial_suspend() { return starting(std::suspend_always{}); }
    auto final_suspend() noexcept { return hop(std::suspend_always{}); }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};

Task work(labels::Key key, bool* labelled) {
  const labels::Scope scope{key, "plug-in"};
  *labelled = scope.ok() && labels::get(key) == "plug-in";
  co_await std::suspend_always{};
}

}  // namespace

extern "C" bool run() {
  const labels::Key key{"module"};
  bool labelled = false;
  const Task task = work(key, &labelled);
  task.handle.resume();
  const bool restored = !labels::get(key).has_value();
  task.handle.destroy();
  return labelled && restored;
}
