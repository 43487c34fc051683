// ProfileNames: puts names to the places of a profile, each asked for once.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/own_process.hpp"
#include "observe/profile/builder.hpp"
#include "symbol/background.hpp"
#include "symbol/kernel_symbols.hpp"

namespace vitrine::observe {

class ProfileNames {
 public:
  explicit ProfileNames(symbol::Duty duty) : symboliser_(symbol::background_limits(duty)) {}

  /// Starts its threads, with the rights of the caller, before they are needed.
  void begin() { symboliser_->begin(); }

  /// Of the kernel's functions, by address (bpf::Profiler::kernel_function), instead of its list of all.
  using AskKernel = std::function<std::optional<std::string>(Address)>;
  void set_kernel(AskKernel ask) { ask_kernel_ = std::move(ask); }

  /// All of `unnamed`, with mappings and processes, and with `symbols` the functions of locations.
  /// Files that are untrusted are parsed in a process of their own; those that are not named
  /// when `budget` is spent stay without names. In any thread, one call at a time. What `unnamed` still has
  /// afterwards belongs to the thread that samples.
  profile::Profile name(UnnamedProfile& unnamed, bool symbols,
                        const symbol::BackgroundSymboliser::TimeBudget& budget);

  /// Begins to look up what a profile has come to so far, without waiting. In the thread that samples.
  void ask_ahead(const ProfileBuilder& builder);

 private:
  struct Kernel {
    std::optional<symbol::KernelSymbols> symbols;
    std::string problem;
  };
  /// Begins to read the names of the kernel, once: in a thread, as its list is long.
  void begin_kernel();

  EndsHere<symbol::BackgroundSymboliser> symboliser_;  // its threads are those of one process
  symbol::JitMemory jit_memory_;                       ///< of the processes' `made`
  std::size_t places_asked_ = 0, mappings_asked_ = 0;  ///< by ask_ahead(), of one profile
  AskKernel ask_kernel_;
  std::once_flag kernel_begun_;
  EndsHere<std::shared_future<Kernel>> kernel_;  // its end waits for the thread
};

}  // namespace vitrine::observe
