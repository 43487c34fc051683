// Replaces the exporter in a build without the headers of libcurl.
#include "export/exporter.hpp"

namespace vitrine::exporter {

Result<void> Exporter::check(const ExportOptions& options) {
  TRY(open(options));
  return {};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the real one keeps them
Result<std::unique_ptr<Exporter>> Exporter::open(ExportOptions) {
  return fail(ErrorCode::unsupported, "this vitrine was built without libcurl and cannot send",
              "install libcurl4-openssl-dev, and build vitrine again");
}

}  // namespace vitrine::exporter
