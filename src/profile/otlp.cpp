#include "profile/encode.hpp"

namespace vitrine::profile {

Result<std::string> encode_otlp(const Profile&, const EncodeOptions&) {
  return fail(ErrorCode::unsupported, "OTLP is not written yet");
}

}  // namespace vitrine::profile
