// ExportProfilesServiceResponse { partial_success { rejected_profiles, error_message } }, as bytes.
#pragma once

#include <cstdint>
#include <protozero/pbf_writer.hpp>
#include <string>

namespace vitrine::test {

inline std::string partial_success(std::int64_t rejected, const std::string& text) {
  std::string out;
  protozero::pbf_writer message(out);
  protozero::pbf_writer inner(message, 1);
  inner.add_int64(1, rejected);
  inner.add_string(2, text);
  return out;
}

}  // namespace vitrine::test
