// A C++ program with the library: an exception of a callback goes through it and the labels are put back;
// memory of the program's own operators is released by them.
#include <customlabels.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <vitrine/context.hpp>

// Memory that free() would not take.
void* operator new(std::size_t size) {
  auto* memory = static_cast<std::max_align_t*>(std::malloc(size + sizeof(std::max_align_t)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory + 1;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) std::free(static_cast<std::max_align_t*>(memory) - 1);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

static custom_labels_string_t text(const std::string& from) {
  return {from.size(), reinterpret_cast<const unsigned char*>(from.data())};
}

static void* throws(void*) {
  throw std::runtime_error("from the callback");
}

int main() {
  custom_labels_labelset_t* set = custom_labels_new(4);
  if (set == nullptr || custom_labels_set(set, text("tenant"), text("acme"), nullptr) != 0)
    return 1;
  custom_labels_replace(set);
  custom_labels_label_t inner{text("inner"), text("deep")};
  bool caught = false;
  try {
    void* out = nullptr;
    custom_labels_run_with(set, &inner, 1, throws, nullptr, &out);
  } catch (const std::runtime_error&) {
    caught = true;
  }
  if (!caught) return 2;
  if (custom_labels_count(set) != 1 || custom_labels_get(set, text("inner")) != nullptr) return 3;
  for (int i = 0; i < 3; ++i) {
    const std::string name =
        "a service whose name is longer than a small string " + std::to_string(i);
    if (!vitrine::context::publish({{"service.name", name}, {"another.attribute", name}})) return 4;
  }
  vitrine::context::drop();
}
