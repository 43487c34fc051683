#include "agent/sender.hpp"

#include <fmt/format.h>

#include <utility>

namespace vitrine::agent {
namespace {

constexpr std::chrono::seconds last_chance{5};  // for what is left at the end

}  // namespace

void ProfileSender::send(const profile::Profile& profile) {
  auto requests = encode_(profile);
  for (std::string& body : requests.bodies) exporter_->send(std::move(body));
  const std::lock_guard lock(mutex_);
  too_large_ += requests.too_large;
}

std::vector<std::string> ProfileSender::take_notes() {
  std::vector<std::string> notes = exporter_->take_notes();
  const std::lock_guard lock(mutex_);
  if (const auto count = std::exchange(too_large_, 0); count != 0)
    notes.push_back(fmt::format("{} sample{} too large to send", count, count == 1 ? "" : "s"));
  return notes;
}

void ProfileSender::finish() {
  exporter_->finish(last_chance);
  exporter_->stop();
}

}  // namespace vitrine::agent
