#include "telemetry/budget.hpp"

#include <functional>
#include <utility>

namespace vitrine::telemetry {

void LabelBudget::begin() {
  for (auto& [key, values] : folded_) values.clear();
  folded_series_ = 0;
}

bool LabelBudget::take(Attributes& attributes, std::size_t first) {
  bool folded = false;
  for (std::size_t i = first; i < attributes.size(); ++i) {
    auto* text = std::get_if<std::string>(&attributes[i].value);
    if (text == nullptr) continue;
    std::set<std::string>& known = values_[attributes[i].key];
    if (known.contains(*text)) continue;
    if (known.size() < max_values_ && text->size() <= max_value_bytes) {
      known.insert(*text);
      continue;
    }
    std::string value = std::exchange(*text, other_value);
    if (value.size() > max_value_bytes) value = std::to_string(std::hash<std::string>()(value));
    folded_[attributes[i].key].insert(std::move(value));
    folded = true;
  }
  std::string series = encode_resource(attributes);
  const bool has_series = series_.contains(series) || series_.size() < max_series_;
  if (folded || !has_series) ++folded_series_;
  if (has_series) series_.insert(std::move(series));
  return has_series;
}

Metric LabelBudget::folded_values(std::string name, std::string text_name) const {
  Metric metric{MetricKind::gauge,
                std::move(name),
                std::move(text_name),
                "{value}",
                "Values of a label without series of their own, which are in __other__.",
                {}};
  for (const auto& [key, values] : folded_) {
    Point point;
    point.attributes = {{"key", key}};
    point.value = static_cast<std::int64_t>(values.size());
    point.text = std::to_string(values.size());
    metric.points.push_back(std::move(point));
  }
  return metric;
}

}  // namespace vitrine::telemetry
