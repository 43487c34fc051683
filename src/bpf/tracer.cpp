#include "bpf/tracer.hpp"

namespace vitrine::bpf {

Result<std::unique_ptr<Tracer>> Tracer::open(TracerOptions) {
  return fail(ErrorCode::unsupported, "this vitrine does not trace yet");
}

}  // namespace vitrine::bpf
