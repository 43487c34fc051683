#include "observe/trace_plan.hpp"

#include <fmt/format.h>

#include <array>

namespace vitrine::observe {
namespace {

using Role = TraceProgram::Role;

bool runs_here(probe::Machine machine) {
#if defined(__x86_64__)
  return machine == probe::Machine::x86_64 || machine == probe::Machine::i386;
#else
  return machine == probe::Machine::aarch64;
#endif
}

}  // namespace

TracePlan::TracePlan(std::span<const std::string> patterns, const TraceQuery& query, bool force)
    : query_(query), force_(force), nops_(bpf::kernel_nop_class()) {
  if (query.reduction && query.reduction->kind == query::ReductionKind::latency) {
    starts_.emplace_back(query.reduction->start);
    patterns_.emplace_back(query.reduction->end);
  } else {
    for (const std::string& pattern : patterns) patterns_.emplace_back(pattern);
  }
}

std::vector<bpf::AttachSite> TracePlan::add(const std::shared_ptr<const ProbeFile>& file,
                                            std::vector<std::string>& notes) {
  std::vector<bpf::AttachSite> sites;
  if (file->file == nullptr || !known_.insert(file->file->identity()).second) return sites;
  ProbeSymbols symbols(*file);
  for (const probe::Probe& probe : file->probes) {
    std::string name = probe.provider + ":" + probe.name;
    seen_.insert(name);
    const auto role = role_of(probe);
    if (!role) continue;
    if (!runs_here(file->machine)) {
      notes.push_back(fmt::format("{}: {} is for another processor", name, file->path));
      continue;
    }
    for (const probe::Site& site : probe.sites) {
      const auto skip = skip_of(*file, site, name, notes);
      if (!skip) continue;
      bpf::AttachSite attach;
      attach.file_offset = *site.file_offset;
      attach.semaphore_offset = site.semaphore_offset.value_or(0);
      attach.skip = *skip;
      attach.site = static_cast<std::uint32_t>(sites_.size());
      attach.program =
          program_of(std::make_unique<TraceProgram>(name, site, symbols, query_, *role));
      sites_.push_back({file.get(), site.address, attach.program});
      sites.push_back(attach);
    }
  }
  if (!sites.empty()) files_.push_back(file);
  return sites;
}

std::optional<Role> TracePlan::role_of(const probe::Probe& probe) const {
  if (probe::selected(probe, patterns_)) return starts_.empty() ? Role::measure : Role::end;
  if (!starts_.empty() && probe::selected(probe, starts_)) return Role::start;
  return std::nullopt;
}

/// SitePlan::skip of a site that can be attached to.
std::optional<unsigned> TracePlan::skip_of(const ProbeFile& file, const probe::Site& site,
                                           const std::string& name,
                                           std::vector<std::string>& notes) const {
  const auto where = [&] {
    return fmt::format("{} at {} of {}", name, hex(site.address), file.path);
  };
  if (!site.file_offset) {
    notes.push_back(where() + ": not attached to: " +
                    (site.problems.empty() ? "it has no place in the file" : site.problems[0]));
    return std::nullopt;
  }
  if (site.semaphore != 0 && !site.semaphore_offset && !site.problems.empty())
    notes.push_back(where() + ": " + site.problems[0]);
  std::array<std::byte, bpf::site_bytes> bytes{};
  const std::size_t got = file.file->read_some(*site.file_offset, bytes);
  const auto plan = bpf::plan_site(std::span(bytes).first(got), file.machine, nops_, force_);
  if (!plan) {
    notes.push_back(where() + ": not attached to: " + plan.error().message);
    return std::nullopt;
  }
  if (plan->cost == bpf::SiteCost::step)
    notes.push_back(where() + ": each fire costs some 10 us, as its instruction is stepped");
  return plan->skip;
}

std::uint32_t TracePlan::program_of(std::unique_ptr<TraceProgram> program) {
  const auto [known, fresh] =
      by_identity_.try_emplace(program->identity(), static_cast<std::uint32_t>(programs_.size()));
  if (fresh) programs_.push_back(std::move(program));
  return known->second;
}

}  // namespace vitrine::observe
