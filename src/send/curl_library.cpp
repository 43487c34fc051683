#include "send/curl_library.hpp"

#include <dlfcn.h>

namespace vitrine::send {
namespace {

Result<CurlLibrary> load() {
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(ErrorCode::unsupported, std::string("sending requires libcurl: ") + dlerror(),
                "install libcurl4");
  const char* missing = nullptr;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  CurlLibrary curl{};
#define VITRINE_FIND(function) find(curl.function, "curl_" #function)
  VITRINE_FIND(global_init);
  VITRINE_FIND(easy_init);
  VITRINE_FIND(easy_setopt);
  VITRINE_FIND(easy_getinfo);
  VITRINE_FIND(easy_strerror);
  VITRINE_FIND(easy_cleanup);
  VITRINE_FIND(multi_init);
  VITRINE_FIND(multi_add_handle);
  VITRINE_FIND(multi_remove_handle);
  VITRINE_FIND(multi_perform);
  VITRINE_FIND(multi_poll);
  VITRINE_FIND(multi_info_read);
  VITRINE_FIND(multi_cleanup);
  VITRINE_FIND(slist_append);
  VITRINE_FIND(slist_free_all);
  VITRINE_FIND(url);
  VITRINE_FIND(url_set);
  VITRINE_FIND(url_get);
  VITRINE_FIND(url_cleanup);
  VITRINE_FIND(free);
#undef VITRINE_FIND
  if (missing != nullptr)
    return fail(ErrorCode::unsupported,
                std::string("sending requires a newer libcurl: it has no ") + missing,
                "install libcurl4 7.80 or newer");
  if (curl.global_init(CURL_GLOBAL_ALL) != CURLE_OK)
    return fail(ErrorCode::unsupported, "libcurl cannot be initialised");
  return curl;
}

}  // namespace

Result<const CurlLibrary*> curl_library() {
  static const auto loaded = TRY(load());
  return &loaded;
}

}  // namespace vitrine::send
