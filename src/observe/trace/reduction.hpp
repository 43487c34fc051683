// TraceReduction: fires added up by group, in the kernel where it can be and else here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "bpf/tracer.hpp"
#include "observe/trace/program.hpp"
#include "query/reduction.hpp"

namespace vitrine::observe {

class TraceReduction {
 public:
  /// `query` has one. `selected`: the labels that the kernel looks up. Both must outlive this.
  TraceReduction(const TraceQuery& query, std::span<const query::Selected> selected);

  /// How the kernel adds up the fires of a program; none: it cannot, and hands them over for add().
  std::optional<KernelReduction> in_kernel(const TraceProgram& program,
                                           const query::Compiled& condition);

  void add(const query::Fire& fire, const query::BoundReduction& site) { here_.add(fire, site); }
  void add_latency(const query::Fire& fire, const query::BoundReduction& site,
                   std::uint64_t spent) {
    here_.add_latency(fire, site, spent);
  }

  /// What was added up so far in both places, sorted.
  [[nodiscard]] Result<query::ReductionTable> table(bpf::Tracer& tracer) const;

 private:
  bool fits_kernel(const TraceProgram& program, const query::Compiled& condition) const;
  std::optional<std::size_t> selected_index(const query::Bound& subject) const;
  std::uint32_t number_of(const TraceProgram& program);
  std::uint32_t pair_of(const TraceProgram& program);
  query::ReductionRow row_of(const bpf::ReductionRow& raw) const;
  query::Key key_of(const TraceProgram& program, const query::Bound& subject,
                    const bpf::ReductionRow& raw, std::size_t& argument) const;
  bool hides(const TraceProgram& program, const query::Bound& subject) const;

  const query::ReductionQuery& query_;
  const Redaction& redaction_;
  std::span<const query::Selected> selected_;
  bool latency_here_ = false;
  bool has_condition_ = false;
  /// By number: a program that ends up in it, and so defines what its rows mean.
  std::vector<const TraceProgram*> numbered_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  ///< by probe and reading
  std::unordered_map<std::string, std::uint32_t> pairs_;    ///< of a latency
  query::Reducer here_;
};

}  // namespace vitrine::observe
