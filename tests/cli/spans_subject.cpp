// A program whose operations are traced: after a line on standard input, N operations (its argument)
// from shop:begin(id) to shop:end(id, amount), labelled tenant=acme, globex or initech in turn; odd ones
// in trace 0102…10, span a1…a8, even ones in none; with a second argument so many microseconds apart. Says "done", and waits for the end of input.
#include <vitrine/sdt.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vitrine/labels.hpp>

namespace {

using vitrine::labels::Key;
using vitrine::labels::Scope;

const Key tenant_key("tenant");

[[gnu::noinline]] void operate(int id) {
  VITRINE_TYPED_PROBE(shop, begin, (id, id));
  VITRINE_TYPED_PROBE(shop, end, (id, id), (amount, id % 300));
}

}  // namespace

int main(int count, char** arguments) {
  constexpr const char* tenants[] = {"acme", "globex", "initech"};
  const vitrine::labels::TraceId trace{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const vitrine::labels::SpanId span{0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8};
  std::cout << "ready" << std::endl;
  const std::chrono::microseconds pause(count > 2 ? std::atoi(arguments[2]) : 0);
  std::string line;
  std::getline(std::cin, line);
  for (int id = 0; id < std::atoi(arguments[1]); ++id) {
    const char* const tenant = tenants[id % 3];
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    if (id % 2 == 1) {
      const Scope scope(vitrine::labels::Trace(trace, span), {{tenant_key, tenant}});
      operate(id);
    } else {
      const Scope scope{{tenant_key, tenant}};
      operate(id);
    }
  }
  std::cout << "done" << std::endl;
  std::getline(std::cin, line);
}
