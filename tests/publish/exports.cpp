// A program with labels, linked in some way. Succeeds if what observers look for is exported, and
// is where the labels are.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <vitrine/labels.hpp>

/// Readers that do not round find the slot of a program without other thread-local variables.
int check_block(dl_phdr_info* program, std::size_t, void* gap) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& header = program->dlpi_phdr[i];
    if (header.p_type == PT_TLS)
      *static_cast<bool*>(gap) = header.p_align > 16 || header.p_memsz % header.p_align != 0;
  }
  return 1;  // the program is the first
}

int main() {
  const vitrine::labels::Key tenant{"tenant"};
  vitrine::labels::Scope scope{tenant, "acme"};
  const auto* version =
      static_cast<const std::uint32_t*>(dlsym(RTLD_DEFAULT, "custom_labels_abi_version"));
  if (version == nullptr || *version != VITRINE_EXPECT_ABI) return std::puts("version"), 1;
  const char* slot =
      VITRINE_EXPECT_ABI == 0 ? "custom_labels_thread_local_data" : "custom_labels_current_set";
  if (dlsym(RTLD_DEFAULT, slot) != vitrine::labels::slot_address()) return std::puts(slot), 1;
  if (vitrine::labels::record_slot_address() != nullptr &&
      dlsym(RTLD_DEFAULT, "otel_thread_ctx_v1") != vitrine::labels::record_slot_address())
    return std::puts("otel_thread_ctx_v1"), 1;
  bool gap = false;
  dl_iterate_phdr(check_block, &gap);
  if (gap) return std::puts("the block of thread-local variables"), 1;
  const auto* first = *static_cast<void* const*>(vitrine::labels::slot_address());
  return first != nullptr && vitrine::labels::get(tenant) == "acme" ? 0 : 1;
}
