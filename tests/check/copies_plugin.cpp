// A plug-in with the shared library, and so with a process context of its own.
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>

namespace labels = vitrine::labels;

/// Puts labels in force for good. `publishes`: with a context of its own, for keys alone add none to that of the
/// program. `drops`: and removes it.
extern "C" bool run(bool publishes, bool drops) {
  const bool done =
      !publishes || static_cast<bool>(vitrine::context::publish({{"service.name", "plug-in"}}));
  static const labels::Key job{"job"}, step{"step"};
  static const labels::Set set = labels::Set::of({{job, "nightly"}, {step, "4"}});
  static const labels::Attach attached{set};
  if (drops) vitrine::context::drop();
  return done && set.ok();
}

extern "C" bool add_key() {
  static const labels::Key late{"late"};
  return late.ok();
}
