// A plug-in that observes, for a program that does not.
#include <unistd.h>

#include <vitrine/observe/labels.hpp>
#include <vitrine/observe/probes.hpp>

extern "C" __attribute__((visibility("default"))) void observe_once() {
  static_cast<void>(vitrine::observer::read_labels(::getpid()));
  static_cast<void>(vitrine::observer::probes_of_process(::getpid()));
}
