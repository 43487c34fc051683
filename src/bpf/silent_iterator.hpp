// Iterators that emit nothing: what they do is in maps.
#pragma once

struct bpf_map;
struct bpf_program;

namespace vitrine::bpf {

/// Runs the program once on every task there is, or on every element of `elements`. Returns an errno.
int run_silently(const bpf_program* program, const bpf_map* elements = nullptr);

}  // namespace vitrine::bpf
