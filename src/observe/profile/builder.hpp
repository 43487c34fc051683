// ProfileBuilder: a profile as it grows, sample by sample, before its locations have names.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/interner.hpp"
#include "observe/events/event_labels.hpp"
#include "observe/profile/program.hpp"
#include "profile/profile.hpp"

namespace vitrine::observe {

/// A location, before it has a name.
struct Place {
  profile::Index mapping = profile::none;
  profile::Index process =
      profile::none;    ///< only where it is in no file: addresses mean nothing else
  Address address = 0;  ///< within the instruction
  profile::FrameKind kind = profile::FrameKind::native;
  bool operator==(const Place&) const = default;
};

/// A mapping, with the file that it is of.
struct MappedCode {
  target::Mapping mapping;
  std::shared_ptr<const CodeFile> file;    ///< null: the kernel
  Address bias = 0;                        ///< address in a process minus the file's own
  profile::Index process = profile::none;  ///< whose it is
};

/// All tables of a profile but the names. Indices are positions.
struct UnnamedProfile {
  /// Of these only what does not change is for the naming thread: the root, and `made`, which is theirs.
  std::vector<SampledPrograms::Program> processes;
  std::vector<target::InnerIdentity> identities;  ///< of the processes
  std::vector<CodeHistory::Code> codes;           ///< of the processes: the last
  std::vector<MappedCode> mappings;
  std::vector<Place> places;
  std::vector<std::string> texts;  ///< of places that are no code: by address
  profile::Profile profile;        ///< samples, stacks, label sets, links, losses, processes
};

class ProfileBuilder {
 public:
  /// `address` is what to look a name up by; in the kernel.
  profile::Index kernel_place(Address address);
  profile::Index user_place(const SampledPrograms::Program& program, const CodeSince& code,
                            std::uint32_t region, Address address);

  /// A frame that is a text and no code: in no mapping, and of no process.
  profile::Index text_place(std::string_view text);

  /// One that had room: none, if not.
  profile::Index stack(std::vector<profile::Index> locations, profile::StackEnd end);
  profile::Index process(const SampledPrograms::Program& program);
  profile::Index labels(const DisplayedLabels& labels);
  profile::Index link(const DisplayedLabels& labels);
  /// Not counted where there is no room for it.
  profile::Index link(const profile::Link& link);

  /// Returns false, and counts it as lost, where there is no room for it.
  bool add(profile::Sample sample);
  profile::Losses& losses() { return losses_; }
  [[nodiscard]] std::size_t size() const { return samples_.size(); }

  [[nodiscard]] std::span<const SampledPrograms::Program> processes() const { return processes_; }
  [[nodiscard]] std::span<const MappedCode> mappings() const { return mappings_; }
  [[nodiscard]] std::span<const Place> places() const { return places_.values(); }

  /// What there is; the builder is empty then.
  UnnamedProfile take();

 private:
  struct PlaceHash {
    std::size_t operator()(const Place& place) const;
  };
  struct StackHash {
    std::size_t operator()(const profile::Stack& stack) const;
  };
  struct LabelsHash {
    std::size_t operator()(const profile::LabelSet& labels) const;
  };
  struct LinkHash {
    std::size_t operator()(const profile::Link& link) const;
  };
  /// By what two mappings are the same: process, start, end, offset, file.
  using MappingKey = std::tuple<profile::Index, Address, Address, std::uint64_t, const CodeFile*>;

  void require_indices(const SampledPrograms::Program& program);
  profile::Index mapping_of(const SampledPrograms::Program& program, const CodeSince& code,
                            std::uint32_t region);
  profile::Index place(const Place& place);

  std::uint64_t generation_ = 1;
  std::vector<SampledPrograms::Program> processes_;
  std::vector<MappedCode> mappings_;
  std::map<MappingKey, profile::Index> known_mappings_;
  profile::Index kernel_ = profile::none;
  Interner<Place, PlaceHash> places_;
  StringInterner texts_;
  Interner<profile::Stack, StackHash> stacks_;
  std::size_t frames_ = 0;
  Interner<profile::LabelSet, LabelsHash> label_sets_;
  std::size_t label_bytes_ = 0;
  std::unordered_map<std::uint64_t, profile::Index> labels_by_id_;
  Interner<profile::Link, LinkHash> links_;
  std::vector<profile::Sample> samples_;
  profile::Losses losses_;
};

}  // namespace vitrine::observe
