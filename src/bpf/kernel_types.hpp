// The part of the kernel's types that a BPF object is relocated by.
#pragma once

#include <bpf/libbpf.h>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/result.hpp"
#include "base/signals.hpp"

namespace vitrine::bpf {

struct WantedStruct {
  std::string_view name;
  std::vector<std::string_view> members;  ///< that programs look at
};

/// The structs of these names, and of others within them their sizes: as type information (BTF) of its own. Drivers
/// may have other structs of such a name: of each, the first that has all members, else the one that has the most.
/// What a pointer points to is left out, as no relocation follows one. Errors: malformed.
Result<std::string> select_types(std::span<const std::byte> btf,
                                 std::span<const WantedStruct> wanted);

/// libbpf reads all types of the kernel for a relocation, and looks at the name of each for every struct that is
/// relocated: 15 ms of a CPU. This selects those that the object needs, in one pass, and gives libbpf a file of them.
///
///   const KernelTypes types;
///   vitrine_tracer* program = types.open<vitrine_tracer>();
///   ... choose what is loaded ...
///   types.load(program);
///
/// A program that is attached by a type of the kernel (tp_btf, iter) has libbpf read them all the same.
class KernelTypes {
 public:
  KernelTypes();
  KernelTypes(const KernelTypes&) = delete;
  KernelTypes& operator=(const KernelTypes&) = delete;
  ~KernelTypes();

  /// Null: errno has the reason.
  template <class Skeleton>
  [[nodiscard]] Skeleton* open() const {
    bpf_object_open_opts options{};
    options.sz = sizeof options;
    if (!path_.empty()) options.btf_custom_path = path_.c_str();
    return Skeleton::open(&options);
  }

  /// Of what open() has opened; no signal interrupts it (SignalsBlocked). Returns an errno.
  template <class Skeleton>
  [[nodiscard]] int load(Skeleton* program) const {
    if (const int error = write(program->obj)) return error;
    const SignalsBlocked blocked;
    return std::abs(Skeleton::load(program));
  }

 private:
  /// The types that this object names. Returns an errno.
  int write(const bpf_object* object) const;

  std::span<const std::byte> all_;
  FileDescriptor file_;
  std::string path_;  // empty: libbpf is to find the types
};

}  // namespace vitrine::bpf
