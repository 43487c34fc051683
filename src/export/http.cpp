#include "export/http.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "base/limits.hpp"
#include "export/clickhouse.hpp"
#include "export/grpc.hpp"
#include "sandbox/files.hpp"

namespace vitrine::exporter {

std::chrono::milliseconds Backoff::some_of(std::chrono::milliseconds most) {
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(
      0, std::max<std::int64_t>(most.count(), 0))(chance_));
}

std::chrono::milliseconds Backoff::next(std::optional<std::chrono::seconds> asked) {
  wait_ = std::clamp(wait_ * 2, first_, std::max(first_, last_));
  if (asked)
    return std::clamp<std::chrono::milliseconds>(*asked, std::chrono::milliseconds(0),
                                                 longest_retry_after) +
           some_of(first_);
  return wait_ / 2 + some_of(wait_ / 2);
}

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
  VITRINE_FIND(version_info);
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

namespace {

constexpr std::size_t max_header_bytes = 256 * 1024;  // curl bounds a line, not their number
constexpr std::size_t max_body_bytes = 16 * limits::export_response;  // read, and thrown away
constexpr int max_redirects = 3;
constexpr std::chrono::duration<long> authorities_kept{60};  // then a file that was renewed counts
constexpr int max_steps_to_files = 16;  // of libcurl, until it has read the files of TLS: about 3

/// Whether `text` is "Name: value" as HTTP has it: nothing that ends the line.
bool is_header(std::string_view text) {
  constexpr std::string_view token_marks = "!#$%&'*+-.^_`|~";
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto in_name = [&](unsigned char c) {
    return (std::isalnum(c) != 0 && c < 0x80) ||
           token_marks.find(static_cast<char>(c)) != token_marks.npos;
  };
  const auto in_value = [](unsigned char c) { return c == '\t' || (c >= ' ' && c != 0x7f); };
  const std::string_view name = text.substr(0, colon), value = text.substr(colon + 1);
  return std::all_of(name.begin(), name.end(), in_name) &&
         std::all_of(value.begin(), value.end(), in_value);
}

void set_tls_files(const CurlLibrary& curl, CURL* easy, const ExportOptions& options) {
  const auto set = [&](CURLoption option, const std::string& path) {
    if (!path.empty()) curl.easy_setopt(easy, option, path.c_str());
  };
  set(CURLOPT_CAINFO, options.authorities);
  // Instead of the system's: libcurl of most distributions has a folder of those, besides.
  if (!options.authorities.empty()) curl.easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  set(CURLOPT_SSLCERT, options.certificate);
  set(CURLOPT_SSLKEY, options.key);
}

/// Whether libcurl can use the files of TLS. It reads them when a connection begins: this one leads to a
/// socket without a server, and goes as far as it does without a response.
Result<void> check_tls_files(const CurlLibrary& curl, const ExportOptions& options) {
  if (options.authorities.empty() && options.certificate.empty() && options.key.empty()) return {};
  for (const std::string& path : {options.authorities, options.certificate, options.key}) {
    if (path.empty()) continue;
    // A connection would wait for a pipe, again and again.
    const auto file = sandbox::open_regular_at(AT_FDCWD, path);
    if (!file && file.error().code == ErrorCode::unsupported)
      return fail(ErrorCode::usage, file.error().message, file.error().remedy);
  }
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(sa_family_t);  // the kernel chooses an abstract name
  if (::bind(socket.get(), generic, bytes) != 0 || ::listen(socket.get(), 1) != 0 ||
      ::getsockname(socket.get(), generic, &(bytes = sizeof address)) != 0)
    return fail(ErrorCode::failed, std::string("a local socket: ") + std::strerror(errno));
  const std::string name(address.sun_path + 1, bytes - sizeof(sa_family_t) - 1);
  CURL* const easy = curl.easy_init();
  CURLM* const multi = curl.multi_init();
  std::array<char, CURL_ERROR_SIZE> text{};
  curl.easy_setopt(easy, CURLOPT_URL, "https://localhost");
  curl.easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name.c_str());
  curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, text.data());
  set_tls_files(curl, easy, options);
  curl.multi_add_handle(multi, easy);
  CURLcode code = CURLE_OK;
  int running = 1;
  for (int step = 0; step < max_steps_to_files && running != 0; ++step)
    curl.multi_perform(multi, &running);
  if (const CURLMsg* message = curl.multi_info_read(multi, &running)) code = message->data.result;
  curl.multi_remove_handle(multi, easy);
  curl.multi_cleanup(multi);
  curl.easy_cleanup(easy);
  switch (code) {
    case CURLE_SSL_CACERT_BADFILE:
      return fail(
          ErrorCode::usage,
          fmt::format("invalid authorities {}: {}", options.authorities, one_line(text.data())),
          "a PEM file with certificates is required");
    case CURLE_SSL_CERTPROBLEM:
      return fail(ErrorCode::usage,
                  fmt::format("invalid client certificate {}: {}", options.certificate,
                              one_line(text.data())),
                  "a certificate and its key, in PEM files, are required");
    default:
      return {};
  }
}

class CurlPost final : public Post {
 public:
  CurlPost(const CurlLibrary& curl, const Endpoint& endpoint, const ExportOptions& options)
      : curl_(curl),
        url_(endpoint.url),
        protocol_(endpoint.protocol),
        signal_(options.signal),
        easy_(curl.easy_init()),
        has_certificate_(!options.certificate.empty()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!ready()) return;
    if (is_grpc()) {
      for (const char* header : {"Content-Type: application/grpc+proto", "TE: trailers",
                                 "grpc-encoding: gzip", "grpc-accept-encoding: identity"})
        add_header(header);
      const bool is_plain = url_.starts_with("http:");
      set(CURLOPT_HTTP_VERSION, static_cast<long>(is_plain ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
                                                           : CURL_HTTP_VERSION_2TLS));
      // libcurl 7.88 fails when it uses such a connection again.
      constexpr unsigned first_that_can = 0x080000;
      if (is_plain && curl.version_info(CURLVERSION_NOW)->version_num < first_that_can)
        set(CURLOPT_FORBID_REUSE, 1L);
      set(CURLOPT_HTTPPROXYTUNNEL, 1L);  // a proxy would make HTTP/1.1 of it
    } else {
      add_header(protocol_ == Protocol::http ? "Content-Type: application/x-protobuf"
                                             : "Content-Type: application/x-ndjson");
      add_header("Content-Encoding: gzip");
      set(CURLOPT_ACCEPT_ENCODING,
          "identity");  // and what a proxy compresses regardless is unpacked
    }
    add_header(
        "Expect:");  // a collector that does not know "100-continue" costs a second a request
    for (const std::string& header : options.headers) add_header(header);
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_USERAGENT, "vitrine/" VITRINE_VERSION);
    set(CURLOPT_POST, 1L);
    set(CURLOPT_FOLLOWLOCATION, 0L);  // redirected() decides
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // a proxy's
#if LIBCURL_VERSION_NUM >= 0x075700
    set(CURLOPT_QUICK_EXIT, 1L);  // a name server that does not respond is not waited for
    set(CURLOPT_CA_CACHE_TIMEOUT, authorities_kept.count());
#endif
    const long timeout = std::max(1L, static_cast<long>(options.timeout.count()));
    set(CURLOPT_TIMEOUT_MS, timeout);
    set(CURLOPT_CONNECTTIMEOUT_MS, timeout);
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, this);
    set_tls_files(curl_, easy_, options);
  }
  CurlPost(const CurlPost&) = delete;
  CurlPost& operator=(const CurlPost&) = delete;

  ~CurlPost() override {
    if (busy_ && multi_ != nullptr) curl_.multi_remove_handle(multi_, easy_);
    if (multi_ != nullptr) curl_.multi_cleanup(multi_);
    curl_.easy_cleanup(easy_);
    curl_.slist_free_all(headers_);
  }

  [[nodiscard]] bool ready() const {
    return easy_ != nullptr && wake_ && !lacks_header_;
  }

  void start(std::string body) override {
    // Not before: it has sockets that a program which is started meanwhile would inherit.
    if (multi_ == nullptr) multi_ = curl_.multi_init();
    body_ = is_grpc() ? grpc::framed(body) : std::move(body);
    redirects_ = 0;
    busy_ = true;
    set(CURLOPT_POSTFIELDS, body_.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    begin(protocol_ == Protocol::clickhouse ? clickhouse::with_token(url_, body_) : url_);
  }

  [[nodiscard]] bool busy() const override {
    return busy_;
  }

  std::optional<Response> wait(std::chrono::milliseconds timeout) override {
    if (busy_ && multi_ == nullptr) {
      busy_ = false;
      response_.problem = "not enough memory for libcurl";
      return std::move(response_);
    }
    if (auto response = go_on()) return response;
    constexpr std::chrono::milliseconds::rep hour = 3'600'000;
    const int most = static_cast<int>(std::clamp(timeout.count(), {}, hour));
    if (multi_ != nullptr) {
      curl_waitfd woken{wake_.get(), CURL_WAIT_POLLIN, 0};
      curl_.multi_poll(multi_, &woken, 1, most, nullptr);
    } else {
      pollfd woken{wake_.get(), POLLIN, 0};
      ::poll(&woken, 1, most);
    }
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    return go_on();
  }

  void wake() override {
    ::eventfd_write(wake_.get(), 1);
  }

 private:
  [[nodiscard]] bool is_grpc() const {
    return protocol_ == Protocol::grpc;
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    curl_.easy_setopt(easy_, option, value);
  }
  void add_header(const std::string& header) {
    curl_slist* const longer = curl_.slist_append(headers_, header.c_str());
    if (longer != nullptr)
      headers_ = longer;
    else
      lacks_header_ = true;
  }

  void begin(const std::string& url) {
    response_ = {};
    response_.protocol = protocol_;
    response_.signal = signal_;
    header_bytes_ = body_bytes_ = 0;
    error_.front() = '\0';
    set(CURLOPT_URL, url.c_str());
    if (multi_ != nullptr) curl_.multi_add_handle(multi_, easy_);
  }

  template <class Value>
  Value get(CURLINFO info) const {
    Value value{};
    curl_.easy_getinfo(easy_, info, &value);
    return value;
  }
  std::string text(CURLINFO info) const {
    const char* value = get<const char*>(info);
    return value == nullptr ? std::string() : value;
  }

  std::optional<Response> go_on() {
    if (multi_ == nullptr) return std::nullopt;
    int count = 0;
    curl_.multi_perform(multi_, &count);
    return ended(count);
  }

  std::optional<Response> ended(int left) {
    const CURLMsg* message = curl_.multi_info_read(multi_, &left);
    if (message == nullptr || message->msg != CURLMSG_DONE) return std::nullopt;
    const CURLcode code = message->data.result;
    response_.status = get<long>(CURLINFO_RESPONSE_CODE);
    if (response_.status < 200) response_.status = 0;  // "100 Continue", and then nothing
    response_.type = text(CURLINFO_CONTENT_TYPE);
    const std::string redirect = text(CURLINFO_REDIRECT_URL);
    if (const auto seconds = get<curl_off_t>(CURLINFO_RETRY_AFTER); seconds > 0 && !is_grpc())
      response_.retry_after = std::chrono::seconds(std::min<curl_off_t>(seconds, 1 << 30));
    if (code != CURLE_OK) response_.problem = describe(code);
    response_.received =
        get<curl_off_t>(CURLINFO_SIZE_UPLOAD_T) >= static_cast<curl_off_t>(body_.size());
    curl_.multi_remove_handle(multi_, easy_);
    if (redirected(redirect)) {
      begin(redirect);
      return std::nullopt;
    }
    response_.redirect = without_password(redirect);
    busy_ = false;
    std::string().swap(body_);  // an assignment would keep its memory
    return std::move(response_);
  }

  /// A redirection that keeps the method, to where our headers may go.
  bool redirected(const std::string& to) {
    const bool keeps_method = response_.status == 307 || response_.status == 308;
    return keeps_method && !to.empty() && same_origin(url_, to) && ++redirects_ <= max_redirects;
  }

  std::string describe(CURLcode code) const {
    std::string text =
        error_.front() != '\0' ? std::string(error_.data()) : curl_.easy_strerror(code);
    // How servers that require a certificate end a connection, by versions of TLS.
    if (!has_certificate_ && contains_any(text, {"certificate required", "alert bad certificate",
                                                 "alert handshake failure"}))
      return "it requires a client certificate (" + text +
             "); OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY name one";
    switch (code) {
      case CURLE_GOT_NOTHING:
      case CURLE_HTTP2:
      case CURLE_HTTP2_STREAM:
        return is_grpc() ? "it does not speak gRPC (" + text + "); OTLP/gRPC is 4317" : text;
      case CURLE_UNSUPPORTED_PROTOCOL:  // to HTTP/1.1, a server of gRPC responds with a frame
      case CURLE_WEIRD_SERVER_REPLY:
        return "that is the gRPC port, or another that is not HTTP (" + text +
               "); OTLP/HTTP is 4318";
      case CURLE_PEER_FAILED_VERIFICATION:
        if (contains_any(text, {"expired", "not yet valid", "subject name"}))
          return "its certificate is not valid (" + text + ")";
        return "its certificate is not trusted (" + text +
               "); OTEL_EXPORTER_OTLP_CERTIFICATE can name a file with the signing authority";
      case CURLE_SSL_CONNECT_ERROR:  // as OpenSSL and GnuTLS report it
        if (contains_any(text,
                         {"wrong version number", "packet length too long", "http request",
                          "unexpected TLS packet", "packet with illegal or unsupported version"}))
          return fmt::format("it does not speak TLS ({}); use otlp+{}://", text,
                             is_grpc() ? "grpc" : "http");
        return text;
      case CURLE_WRITE_ERROR:
        return "its response is too long, or there is no memory for it";
      default:
        return text;
    }
  }

  static std::size_t take_header(const char* line, std::size_t, std::size_t bytes, void* self) {
    auto& its = *static_cast<CurlPost*>(self);
    its.header_bytes_ += bytes;
    const bool is_taken = within_memory([&] {
      if (its.is_grpc()) grpc::take_header(its.response_, {line, bytes});
    });
    return is_taken && its.header_bytes_ <= max_header_bytes ? bytes : 0;
  }

  static std::size_t take_body(const char* data, std::size_t, std::size_t bytes, void* self) {
    auto& its = *static_cast<CurlPost*>(self);
    std::string& body = its.response_.body;
    its.body_bytes_ += bytes;
    const bool is_taken = within_memory(
        [&] { body.append(data, std::min(bytes, limits::export_response - body.size())); });
    return is_taken && its.body_bytes_ <= max_body_bytes ? bytes : 0;
  }

  /// No exception passes through libcurl, which is C: it would be left in the middle of its work.
  template <class Work>
  static bool within_memory(Work work) try {
    work();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  const CurlLibrary& curl_;
  std::string url_;
  const Protocol protocol_;
  const Signal signal_;
  CURL* easy_;
  CURLM* multi_ = nullptr;
  curl_slist* headers_ = nullptr;
  bool lacks_header_ = false;
  const bool has_certificate_;
  FileDescriptor wake_;
  std::string body_;
  Response response_;
  std::size_t header_bytes_ = 0, body_bytes_ = 0;
  int redirects_ = 0;
  bool busy_ = false;
  std::array<char, CURL_ERROR_SIZE> error_{};
};

}  // namespace

Result<std::unique_ptr<Post>> Post::open(const Endpoint& endpoint, const ExportOptions& options) {
  const auto curl = TRY(curl_library());
  if (endpoint.protocol == Protocol::grpc &&
      (curl->version_info(CURLVERSION_NOW)->features & CURL_VERSION_HTTP2) == 0)
    return fail(ErrorCode::unsupported, "gRPC requires a libcurl with HTTP/2",
                "send over HTTP: otlp+http://HOST:4318");
  for (std::size_t i = 0; i < options.headers.size(); ++i)
    if (!is_header(options.headers[i]))  // what it is may be a secret
      return fail(ErrorCode::usage, fmt::format("invalid header {} for the collector", i + 1),
                  "write it as 'Name: value'");
  if (endpoint.url.starts_with("https:")) TRY(check_tls_files(*curl, options));
  auto post = std::make_unique<CurlPost>(*curl, endpoint, options);
  if (!post->ready()) return fail(ErrorCode::failed, "not enough memory for libcurl");
  return post;
}

}  // namespace vitrine::exporter
