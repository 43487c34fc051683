// A program outside this repository that publishes labels and a process context.
#include <cstdio>
#include <vitrine/context.hpp>
#include <vitrine/labels.hpp>

int main() {
  static const vitrine::labels::Key tenant("tenant");
  const auto published = vitrine::context::publish({{"service.name", "outsider"}});
  const vitrine::labels::Scope scope(tenant, "acme");
  if (!published || !scope.ok()) return 1;
  std::printf("tenant=%s\n", std::string(*vitrine::labels::get(tenant)).c_str());
}
