// Waiting for programs that run now.
#pragma once

namespace vitrine::bpf {

/// Lets switches and interrupts that are under way on any CPU come to their end: those that follow go
/// by what is attached, and by what is in maps, now.
void let_programs_end();

}  // namespace vitrine::bpf
