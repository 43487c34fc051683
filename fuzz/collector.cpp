// What a collector returns, and what lies in a spool: {u8 what}{type, ended by NUL}{body}; and the
// variables of the environment that say where to send.
#include "base/gzip.hpp"
#include "base/limits.hpp"
#include "export/clickhouse.hpp"
#include "export/endpoint.hpp"
#include "export/environment.hpp"
#include "export/grpc.hpp"
#include "export/judgement.hpp"
#include "input.hpp"

using namespace vitrine;

namespace {

void take_response(unsigned status, std::string_view type, std::string_view body) {
  exporter::Response said;
  said.status = static_cast<long>(status);
  said.type = type;
  said.body = body.substr(0, limits::export_response);
  said.redirect = body.substr(0, 64);
  const exporter::Judgement judged = exporter::judge(said);
  fuzz::require(judged.note.size() <= limits::export_message + type.size() + 512);
  fuzz::require(judged.verdict == exporter::Verdict::taken || judged.rejected == 0);
  const bool page = type.starts_with("text/html");
  exporter::Response grpc = said;
  grpc.protocol = exporter::Protocol::grpc;
  exporter::grpc::take_header(grpc, body);
  exporter::grpc::take_header(grpc, "grpc-status-details-bin: " + std::string(body));
  (void)exporter::grpc::judge(grpc);
  exporter::Response clickhouse = said;
  clickhouse.protocol = exporter::Protocol::clickhouse;
  fuzz::require((status >= 200 && status < 300 && !page) ==
                (exporter::judge(clickhouse).verdict == exporter::Verdict::taken));
  fuzz::require((status >= 200 && status < 300 && !page) ==
                (judged.verdict == exporter::Verdict::taken));
}

void packed(std::string_view bytes) {
  constexpr std::size_t most = 1U << 20;
  const auto content = gunzip(bytes, most);
  if (!content) return;
  fuzz::require(content->size() <= most);
  const auto again = gzip(*content);
  fuzz::require(again && gunzip(*again, most) == *content);
}

void address(std::string_view text) {
  (void)exporter::without_password(std::string(text));
  (void)exporter::clickhouse::insert_statement(text);
  (void)exporter::same_origin("http://host:4318/v1", std::string(text));
  if (const auto endpoint = exporter::parse_endpoint(text))
    fuzz::require(endpoint->name.find('@') == std::string::npos || endpoint->name.find('[') == 0);
}

void environment(std::string_view name, std::string_view value) {
  const auto variables = [&](const std::string& asked) -> std::optional<std::string> {
    if (asked.ends_with("HEADERS")) return std::string(value);
    if (asked.ends_with("ENDPOINT")) return std::string(name);
    return std::nullopt;
  };
  exporter::ExportOptions options;
  options.url = "otlp";
  options.headers = {"tenant: acme"};
  const auto made = exporter::with_environment(options, variables);
  fuzz::require(!made || (!made->headers.empty() && made->headers[0] == "tenant: acme"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view first = input.substr(0, end);
  const std::string_view rest = input.substr(std::min(end + 1, input.size()));
  switch (data[0] % 4) {
    case 0:
      take_response(data[0] / 4 * 10U, first, rest);
      take_response(200, first, rest);
      break;
    case 1:
      packed(input);
      break;
    case 2:
      address(input);
      break;
    default:
      environment(first, rest);
  }
  return 0;
}
