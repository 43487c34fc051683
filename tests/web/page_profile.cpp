// Writes a page of a made profile to standard output, for page_test.mjs and to be looked at.
//
// usage: page_profile demo | known | hostile | large | million | empty
#include <cstdio>
#include <cstring>

#include "profile/encode.hpp"
#include "web/made_profiles.hpp"

int main(int argc, char** argv) {
  using namespace vitrine;
  const auto made = argc == 2 ? web_test::made(argv[1]) : std::nullopt;
  if (!made) {
    std::fputs("usage: page_profile demo | known | hostile | large | million | empty\n", stderr);
    return 2;
  }
  const Result<std::string> page = profile::encode_html(made->profile, made->options);
  if (!page) {
    std::fprintf(stderr, "page_profile: %s\n", page.error().message.c_str());
    return 1;
  }
  return std::fwrite(page->data(), 1, page->size(), stdout) == page->size() ? 0 : 1;
}
