// A plug-in with a copy of the library, which is against its advice.
#define VITRINE_PUBLISH_IMPLEMENTATION
#include "vitrine_publish.hpp"

extern "C" __attribute__((visibility("default"))) int use_labels() {
  const vitrine::labels::Scope scope(vitrine::labels::Key("plugin"), "yes");
  return scope.ok() ? 1 : 0;
}
