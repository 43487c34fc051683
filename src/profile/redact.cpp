#include "profile/redact.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/hex.hpp"
#include "base/limits.hpp"
#include "profile/shared.hpp"

namespace vitrine::profile {
namespace {

class LinksAsLabels {
 public:
  LinksAsLabels(Profile& profile, const Redaction& redaction)
      : profile_(profile),
        redaction_(redaction),
        traces_(redaction.covers_label("trace_id")),
        spans_(redaction.covers_label("span_id")) {}

  void run() {
    if (!traces_ && !spans_) return;
    for (Sample& sample : profile_.samples) {
      const Link* link = entry(profile_.links, sample.link);
      if (link == nullptr) continue;
      const auto [known, fresh] = sets_.try_emplace({sample.labels, sample.link}, none);
      if (fresh) known->second = add(sample.labels, *link);
      sample.labels = known->second;
      sample.link = none;
      profile_.losses.truncated_labels += sample.labels == none;
    }
    profile_.links.clear();
  }

 private:
  /// The set of that number with the ids, if there is room.
  Index add(Index labels, const Link& link) {
    const LabelSet* before = entry(profile_.label_sets, labels);
    LabelSet set = before == nullptr ? LabelSet{} : *before;
    put(set, "trace_id", hex_text(link.trace_id), traces_);
    put(set, "span_id", hex_text(link.span_id), spans_);
    for (const Label& label : set) bytes_ += label.key.size() + label.value.size();
    if (bytes_ > limits::profile_label_bytes || sets_.size() > limits::profile_label_sets)
      return none;
    profile_.label_sets.push_back(std::move(set));
    return static_cast<Index>(profile_.label_sets.size() - 1);
  }

  void put(LabelSet& set, const char* key, const std::string& id, bool covered) const {
    const auto at = std::ranges::lower_bound(set, key, {}, &Label::key);
    if (at != set.end() && at->key == key) return;
    set.insert(at, {key, covered ? redaction_.replacement(id) : id});
  }

  Profile& profile_;
  const Redaction& redaction_;
  bool traces_, spans_;
  std::map<std::pair<Index, Index>, Index> sets_;  ///< by labels and link
  std::size_t bytes_ = 0;
};

}  // namespace

Profile redacted(Profile profile, const Redaction& redaction) {
  if (!redaction.any()) return profile;
  for (LabelSet& set : profile.label_sets)
    for (Label& label : set)
      if (redaction.covers_label(label.key)) label.value = redaction.replacement(label.value);
  LinksAsLabels(profile, redaction).run();
  for (Process& process : profile.processes)
    for (Attribute& attribute : process.resource)
      if (redaction.covers_attribute(attribute.key))
        attribute.value = redaction.replacement(attribute.value);
  return profile;
}

}  // namespace vitrine::profile
