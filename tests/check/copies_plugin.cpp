// A plug-in with the shared library, and so with a process context of its own.
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>

namespace labels = vitrine::labels;

/// Puts labels in force for good. `drops`: and removes the context that has the names of their keys.
extern "C" bool run(bool drops) {
  static const labels::Key job{"job"}, step{"step"};
  static const labels::Set set = labels::Set::of({{job, "nightly"}, {step, "4"}});
  static const labels::Attach attached{set};
  const bool done = static_cast<bool>(vitrine::context::publish({{"service.name", "plug-in"}}));
  if (drops) vitrine::context::drop();
  return done && set.ok();
}
