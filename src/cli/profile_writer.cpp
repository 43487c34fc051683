#include "cli/profile_writer.hpp"

#include <chrono>

#include "cli/export_options.hpp"
#include "cli/path_pattern.hpp"
#include "cli/report.hpp"

namespace vitrine::cli {

void ProfileWriter::begin(profile::Profile profile) {
  errors_ = std::async(std::launch::async,
                       [this, profile = std::move(profile)] { return write(profile); });
}

bool ProfileWriter::busy() const {
  return errors_.valid() && errors_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

bool ProfileWriter::wait() {
  if (!errors_.valid()) return !failed_;
  for (const Error& error : errors_.get()) {
    report(error);
    failed_ = true;
  }
  return !failed_;
}

std::vector<Error> ProfileWriter::write(const profile::Profile& profile) const {
  std::vector<Error> errors;
  if (exporter_ != nullptr) send_profile(*exporter_, profile, options_);
  for (ProfileOutput output : outputs_) {
    output.path = path_at(output.path, profile.start_ns);
    if (auto written = write_profile(profile, output, options_); !written)
      errors.push_back(std::move(written.error()));
  }
  return errors;
}

}  // namespace vitrine::cli
