#include "cli/agent/request.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace vitrine::cli {
namespace {

using agent::ValueKind;

constexpr const char* usual_profile_interval = "10s";
constexpr const char* usual_listen = "127.0.0.1:9495";
constexpr const char* listens_not = "off";
constexpr const char* trace_flag = "--trace";
constexpr std::string_view trace_table = "trace";

constexpr std::array agent_keys{
    AgentKey{{"profile.interval", ValueKind::text}, "--interval", "\"10s\""},
    AgentKey{{"profile.on_cpu", ValueKind::flag}, "--on-cpu", ""},
    AgentKey{{"profile.off_cpu", ValueKind::flag}, "--off-cpu", "false"},
    AgentKey{{"profile.frequency", ValueKind::number}, "--freq", "99"},
    AgentKey{{"profile.min_block", ValueKind::text}, "--min-block", ""},
    AgentKey{{"profile.preempted", ValueKind::flag}, "--preempted", "false"},
    AgentKey{{"profile.wakers", ValueKind::flag}, "--wakers", "false"},
    AgentKey{{"profile.kernel", ValueKind::flag}, "--no-kernel", "true", true},
    AgentKey{{"profile.symbols", ValueKind::flag}, "--no-symbols", "true", true},
    AgentKey{{"profile.unwind", ValueKind::text}, "--unwind", "\"auto\""},
    AgentKey{{"profile.verify_unwind", ValueKind::flag}, "--verify-unwind", "false"},
    AgentKey{{"profile.stack_bytes", ValueKind::number}, "--stack-bytes", "16384"},
    AgentKey{{"profile.stack_depth", ValueKind::number}, "--stack-depth", "512"},
    AgentKey{{"profile.buffer", ValueKind::number}, "--buffer", ""},
    AgentKey{{"profile.naming", ValueKind::text}, "--naming", ""},
    AgentKey{{"select.process", ValueKind::list}, "--process", "[]"},
    AgentKey{{"select.cgroup", ValueKind::list}, "--cgroup", "[]"},
    AgentKey{{"select.container", ValueKind::list}, "--container", "[]"},
    AgentKey{{"select.service", ValueKind::list}, "--service", "[]"},
    AgentKey{{"select.filter", ValueKind::text}, "--filter", ""},
    AgentKey{{"labels.redact", ValueKind::list}, "--redact", "[]"},
    AgentKey{{"labels.redact_secret", ValueKind::text}, "--redact-secret", ""},
    AgentKey{{"labels.prefix", ValueKind::text}, "--label-prefix", ""},
    AgentKey{{"export.url", ValueKind::text}, "--export", ""},
    AgentKey{{"export.headers", ValueKind::list}, "--export-header", "[]"},
    AgentKey{{"export.attributes", ValueKind::list}, "--export-attributes", "[]"},
    AgentKey{{"export.bytes", ValueKind::size}, "--export-bytes", "\"1MiB\""},
    AgentKey{{"export.compact", ValueKind::flag}, "--otlp-compact", "false"},
    AgentKey{{"export.ca", ValueKind::text}, "--export-ca", ""},
    AgentKey{{"export.certificate", ValueKind::text}, "--export-certificate", ""},
    AgentKey{{"export.key", ValueKind::text}, "--export-key", ""},
    AgentKey{{"export.spool", ValueKind::text}, "--spool", ""},
    AgentKey{{"export.spool_bytes", ValueKind::size}, "--spool-bytes", ""},
    AgentKey{{"export.signals_url", ValueKind::text}, "--export-signals", ""},
    AgentKey{{"metrics.by", ValueKind::list}, "--metrics-by", "[]"},
    AgentKey{{"metrics.label_values", ValueKind::number}, "--metrics-label-values", "100"},
    AgentKey{{"metrics.interval", ValueKind::text}, "--metrics-interval", "\"15s\""},
    AgentKey{{"metrics.textfile", ValueKind::text}, "--textfile", ""},
    AgentKey{{"metrics.push", ValueKind::flag}, "--no-push", "true", true},
    AgentKey{{"files.output", ValueKind::list}, "--output", "[]"},
    AgentKey{{"files.group_by", ValueKind::list}, "--group-by", "[]"},
    AgentKey{{"agent.listen", ValueKind::text}, "--listen", "\"127.0.0.1:9495\""},
};

void add_globs(CLI::App& app, const char* name, std::vector<std::string>& into,
               const std::string& what) {
  app.add_option(name, into,
                 "Profile only processes " + what + "; with ! not these; may be repeated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("GLOB,...");
}

}  // namespace

void AgentRequest::define(CLI::App& app) {
  app.add_option("--interval", interval_, "Take one profile per INTERVAL (10s)")
      ->option_text("INTERVAL");
  sampling_.define(app);
  add_globs(app, "--process", options.selection.programs, "whose executable has this file name");
  add_globs(app, "--cgroup", options.selection.cgroups, "in control groups with this path");
  add_globs(app, "--container", options.selection.containers, "in containers with this ID");
  add_globs(app, "--service", options.selection.services, "with this service.name");
  view.define_continuous(app);
  sending.define(app);
  metrics.define(app);
  app.add_option(
         trace_flag, trace_tables_,
         "Trace probes, in place of the [[trace]] of the file: '{ file = \"/usr/bin/shop\", "
         "probes = [\"shop:*\"], count = true }'; may be repeated")
      ->allow_extra_args(false)
      ->option_text("TABLE");
  app.add_option("--listen", listen_,
                 "Serve /healthz and /metrics at this address (127.0.0.1:9495), or off")
      ->option_text("ADDRESS:PORT");
}

Result<void> AgentRequest::take() {
  options.all = true;
  every = TRY(parse_interval(interval_.empty() ? usual_profile_interval : interval_));
  options.always_on = every;
  TRY(sampling_.take(options, naming));
  TRY(view.take());
  view.spare(options, every);
  TRY(check_repeated(view.outputs));
  TRY(metrics.take());
  // Headers, certificates and the spool are those of metrics, spans and log records, too.
  TRY(sending.check(metrics.engine({})));
  if (sending.given()) TRY(sending.check_engine());
  using Spooling = SendingOptions::Spooling;
  if (const std::string engine = metrics.engine(sending.url()); !engine.empty())
    TRY(exporter::Exporter::check(
        TRY(sending.take(engine, exporter::Signal::metrics, Spooling::off))));
  if (listen_ != listens_not)
    listen = TRY(agent::parse_listen_address(listen_.empty() ? usual_listen : listen_));
  return {};
}

Result<void> AgentRequest::check_outputs() const {
  if (view.outputs.empty() && !sending.given() && metrics.by.empty())
    return fail(ErrorCode::usage, "the profiles have no output",
                "set export.url (--export otlp+http://HOST:4318), files.output "
                "(-o '/var/lib/vitrine/%t.pb.gz'), or metrics.by (--metrics-by KEY)");
  const std::string engine = metrics.engine(sending.url());
  const bool have_metrics =
      (metrics.pushed && !engine.empty()) || !metrics.textfile.empty() || listen;
  bool have = !metrics.by.empty();
  for (const TraceTable& table : traces) {
    if (table.signal() == exporter::Signal::metrics) {
      have = true;
      continue;
    }
    if (engine.empty())
      return fail(ErrorCode::usage,
                  fmt::format("trace {}: {} have no output", table.name,
                              exporter::names_of(table.signal()).items),
                  "set export.signals_url (--export-signals otlp+http://HOST:4318)");
  }
  if (!have || have_metrics) return {};
  return fail(ErrorCode::usage, "the metrics have no output",
              "set export.signals_url, metrics.textfile, or agent.listen");
}

GivenOptions given_options(const CLI::App& app) {
  GivenOptions given;
  for (const AgentKey& key : agent_keys)
    if (const CLI::Option* option = app.get_option(key.flag); option->count() > 0) {
      // What CLI11 has of a flag without a value.
      given[key.flag] = option->results();
    }
  if (const CLI::Option* option = app.get_option(trace_flag); option->count() > 0)
    given[trace_flag] = option->results();
  return given;
}

namespace {

std::vector<std::string> words_of(const std::vector<AgentSetting>& settings,
                                  const AgentSetting* without = nullptr) {
  std::vector<std::string> words;
  for (const AgentSetting& setting : settings) {
    if (&setting == without) continue;
    if (setting.key.joint != 0 && !setting.values.empty()) {
      std::string word = setting.flag + '=';
      for (const std::string& value : setting.values)
        word += (&value == setting.values.data() ? "" : std::string(1, setting.key.joint)) + value;
      words.push_back(std::move(word));
      continue;
    }
    for (const std::string& value : setting.values)
      if (!value.empty()) words.push_back(setting.flag + '=' + value);
  }
  return words;
}

Result<void> parse_words(CLI::App& app, const std::vector<std::string>& words) {
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const OptionError& error) {
    return tl::unexpected(error.error);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::usage, error.what(), "`vitrine agent --help` shows details");
  }
  return {};
}

/// The secret of redaction, for each try: what takes it removes it from the environment.
class KeptSecret {
 public:
  KeptSecret() {
    const char* const value = std::getenv(variable);
    if (value != nullptr) secret() = value;
  }
  ~KeptSecret() { restore(); }
  KeptSecret(const KeptSecret&) = delete;
  KeptSecret& operator=(const KeptSecret&) = delete;

  static constexpr const char* variable = "VITRINE_REDACT_SECRET";

  static void restore() {
    if (!secret().empty()) ::setenv(variable, secret().c_str(), 1);
  }

 private:
  static std::string& secret() {
    static std::string kept;
    return kept;
  }
};

Result<std::unique_ptr<AgentRequest>> request_of(
    const std::vector<std::string>& words,
    exporter::Environment environment = exporter::own_environment()) {
  KeptSecret::restore();
  CLI::App app;
  auto request = std::make_unique<AgentRequest>();
  request->define(app);
  request->sending.set_environment(std::move(environment));
  TRY(parse_words(app, words));
  TRY(request->take());
  return request;
}

Result<TraceTable> trace_of(const std::vector<std::string>& words, const Redaction& redaction) {
  CLI::App app;
  TraceTable table;
  table.define(app);
  TRY(parse_words(app, words));
  TRY(table.take(redaction));
  return table;
}

/// Of a flag, the value of its key: `kernel = false` is --no-kernel.
std::vector<std::string> flag_values(const AgentKey& key, std::vector<std::string> values) {
  if (key.negated)
    for (std::string& value : values) value = value == "true" ? "false" : "true";
  return values;
}

/// The variable of OpenTelemetry without which all is right; empty: none.
std::string blamed_variable(const std::vector<std::string>& words) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string name(*entry, std::strcspn(*entry, "="));
    if (!name.starts_with("OTEL_EXPORTER_OTLP_")) continue;
    const auto without = [&](const std::string& other) {
      return other == name ? std::nullopt : exporter::own_environment()(other);
    };
    if (request_of(words, without)) return name;
  }
  return {};
}

/// An error of all settings as one of the value that it is about: without it all is right, or, where
/// another value is wrong too, the last without which the error is another one: values come behind those
/// that they need.
template <class Parse>
Error blamed_setting(Error error, const std::vector<AgentSetting>& settings, Parse parse) {
  const AgentSetting* about = nullptr;
  for (const AgentSetting& setting : settings) {
    if (setting.source.empty() || setting.source.starts_with('-')) continue;
    const auto without = parse(words_of(settings, &setting));
    if (without || without.error().message != error.message) about = &setting;
    if (without) break;
  }
  if (about != nullptr)
    error.message = fmt::format("{}: {}: {}", about->source, about->key.name, error.message);
  return error;
}

/// An error of all settings, with what it is about: a variable of the environment, or a value.
Error blamed(Error error, const std::vector<AgentSetting>& settings) {
  if (error.message.find(KeptSecret::variable) != std::string::npos) return error;
  if (const std::string name = blamed_variable(words_of(settings)); !name.empty()) {
    if (error.message.find(name) == std::string::npos) error.message = name + ": " + error.message;
    return error;
  }
  return blamed_setting(std::move(error), settings,
                        [](const auto& words) { return request_of(words); });
}

}  // namespace

namespace {

/// A setting for each key; what a file has of them is in `configured`.
std::vector<AgentSetting> settings_of(std::span<const AgentKey> keys,
                                      std::span<const agent::ConfiguredKey> configured,
                                      const std::string& file, const GivenOptions& given) {
  std::vector<AgentSetting> settings;
  for (const AgentKey& key : keys) {
    AgentSetting setting{key.key, key.flag, {}, {}};
    const auto its = std::ranges::find(configured, key.key.name, &agent::ConfiguredKey::name);
    if (const auto option = given.find(key.flag); option != given.end()) {
      setting.values = option->second;
      setting.source = key.flag;
    } else if (its != configured.end()) {
      setting.values = flag_values(key, its->values);
      setting.source = file.empty() ? trace_flag : agent::place_of(file, its->line, its->column);
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

/// The tables among `configured`, which are in their order.
std::vector<std::vector<AgentSetting>> tables_of(std::span<const agent::ConfiguredKey> configured,
                                                 const std::string& file) {
  std::vector<std::vector<AgentSetting>> tables;
  while (!configured.empty()) {
    const auto end = std::ranges::find_if(
        configured, [&](const auto& key) { return key.table != configured.front().table; });
    const auto size = static_cast<std::size_t>(end - configured.begin());
    tables.push_back(settings_of(TraceTable::keys(), configured.first(size), file, {}));
    configured = configured.subspan(size);
  }
  return tables;
}

Result<std::vector<std::vector<AgentSetting>>> tables_of_options(
    const std::vector<std::string>& texts, std::span<const agent::KnownKey> known) {
  std::vector<std::vector<AgentSetting>> tables;
  for (const std::string& text : texts) {
    const auto keys = TRY(agent::parse_configuration(fmt::format("{} = [{}]", trace_table, text),
                                                     trace_flag, known, trace_table));
    for (auto& table : tables_of(keys, {})) tables.push_back(std::move(table));
  }
  return tables;
}

/// That something is sampled: without options it is time on a CPU.
Result<void> check_measures(const std::vector<AgentSetting>& settings) {
  const auto is = [&](std::string_view name, const char* value) {
    const auto its =
        std::ranges::find(settings, name, [](const auto& one) { return one.key.name; });
    return its != settings.end() && !its->values.empty() && its->values.back() == value ? &*its
                                                                                        : nullptr;
  };
  const AgentSetting* const on_cpu = is("profile.on_cpu", "false");
  if (on_cpu == nullptr || is("profile.off_cpu", "true") != nullptr) return {};
  return fail(ErrorCode::usage,
              fmt::format("{}: profile.on_cpu: nothing is sampled", on_cpu->source),
              "set on_cpu or off_cpu to true");
}

/// Where a key of a table is set, or else the table begins, as the begin of a message.
std::string place_in(const std::vector<AgentSetting>& table, std::string_view name) {
  const auto is_set = [](const AgentSetting& setting) { return !setting.source.empty(); };
  auto its = std::ranges::find_if(table, [&](const AgentSetting& setting) {
    return setting.key.name == name && is_set(setting);
  });
  if (its == table.end()) its = std::ranges::find_if(table, is_set);
  return its == table.end() ? std::string() : fmt::format("{}: {}: ", its->source, its->key.name);
}

/// Whether a directory is there to write to. For root only a read-only file system is none; others may run the check
/// that is for root's service.
Result<void> check_directory(const std::filesystem::path& directory) {
  std::error_code error;
  const auto status = std::filesystem::status(directory, error);
  int number = error.value();
  if (!error && !std::filesystem::is_directory(status)) number = ENOTDIR;
  if (number == 0 && ::access(directory.c_str(), W_OK) != 0 && (::geteuid() == 0 || errno == EROFS))
    number = errno;
  // Of a path in /proc/PID or another user's home it is not known here.
  if (number == 0 || number == EACCES) return {};
  return fail(code_of_errno(number),
              fmt::format("{}: {}", directory.string(), std::strerror(number)));
}

/// What the service manager makes for the packaged service, at its start.
constexpr std::string_view state_directory = "/var/lib/vitrine-agent";

Result<void> check_place(const std::string& path, std::string_view key) {
  if (path.empty() || path == agent::standard_output) return {};
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  // What is there already: a spool is a directory.
  const bool is_spool = key == "export.spool";
  const bool is_there = is_spool && std::filesystem::exists(whole, error);
  const std::filesystem::path directory = is_there ? whole : whole.parent_path();
  const bool is_made = directory.string().starts_with(state_directory) &&
                       !std::filesystem::exists(state_directory, error);
  return is_made ? Result<void>() : check_directory(directory);
}

}  // namespace

Result<void> AgentConfiguration::check_places() const {
  for (const AgentSetting& setting : settings) {
    const std::string_view name = setting.key.name;
    if (name != "files.output" && name != "export.spool" && name != "metrics.textfile") continue;
    for (const std::string& path : setting.values)
      if (auto there = check_place(path, name); !there)
        return fail(there.error().code,
                    fmt::format("{}: {}: {}", setting.source, name, there.error().message),
                    "give it a place in a directory that is there and can be written to");
  }
  return {};
}

Result<AgentConfiguration> configure_agent(const std::string& file, const GivenOptions& given) {
  const KeptSecret secret;
  std::vector<agent::KnownKey> known;
  for (const AgentKey& key : agent_keys) known.push_back(key.key);
  for (const AgentKey& key : TraceTable::keys()) known.push_back(key.key);
  std::vector<agent::ConfiguredKey> configured;
  if (!file.empty()) configured = TRY(agent::read_configuration(file, known, trace_table));
  const auto is_table = [](const agent::ConfiguredKey& key) {
    return key.name.starts_with("trace.");
  };
  const auto tables = std::stable_partition(configured.begin(), configured.end(),
                                            [&](const auto& key) { return !is_table(key); });

  AgentConfiguration configuration;
  configuration.settings =
      settings_of(agent_keys, std::span(configured.begin(), tables), file, given);
  if (const auto option = given.find(trace_flag); option != given.end())
    configuration.traces = TRY(tables_of_options(option->second, known));
  else
    configuration.traces = tables_of(std::span(tables, configured.end()), file);
  TRY(check_measures(configuration.settings));
  auto request = request_of(words_of(configuration.settings));
  if (!request) return tl::unexpected(blamed(std::move(request.error()), configuration.settings));
  configuration.request = std::move(*request);
  const Redaction& redaction = configuration.request->view.redaction();
  std::string hidden;  // what is redacted in all traces, and how
  for (const AgentSetting& setting : configuration.settings)
    if (setting.key.name.starts_with("labels.redact"))
      for (const std::string& value : setting.values) hidden += value + '\0';
  for (const auto& settings : configuration.traces) {
    auto table = trace_of(words_of(settings), redaction);
    if (!table)
      return tl::unexpected(
          blamed_setting(std::move(table.error()), settings,
                         [&](const auto& words) { return trace_of(words, redaction); }));
    table->name_at = place_in(settings, "trace.name");
    table->hist_at = place_in(settings, "trace.hist");
    table->identity = hidden;
    for (const std::string& word : words_of(settings)) table->identity += word + '\0';
    configuration.request->traces.push_back(std::move(*table));
  }
  TRY(check_together(configuration.request->traces));
  return configuration;
}

namespace {

/// Of a URL, whatever is wrong with it: user:PASSWORD@host, and ClickHouse's ?password=PASSWORD.
std::string with_hidden_password(std::string url) {
  constexpr std::string_view hidden = "(hidden)", parameter = "password=";
  if (const std::size_t scheme = url.find("://"); scheme != url.npos) {
    const std::size_t user = scheme + 3;
    const std::size_t end = std::min(url.find_first_of("/?#", user), url.size());
    const std::size_t colon = url.find(':', user);
    std::size_t at = url.substr(0, end).rfind('@');
    if (at == url.npos && colon < end) {  // a password may have such characters, too
      const std::string_view port = std::string_view(url).substr(colon + 1, end - colon - 1);
      const bool is_port = std::ranges::all_of(port, is_digit);
      at = url.substr(0, is_port ? url.find_first_of("?#", user) : url.npos).rfind('@');
    }
    if (at != url.npos && colon < at) url.replace(colon + 1, at - colon - 1, hidden);
  }
  if (const std::size_t at = url.find(parameter); at != url.npos) {
    const std::size_t value = at + parameter.size();
    url.replace(value, std::min(url.find_first_of("&#", value), url.size()) - value, hidden);
  }
  return url;
}

std::string line_of(const AgentKey& key, const AgentSetting& setting) {
  const std::string_view name = setting.key.name;
  std::vector<std::string> values = flag_values(key, setting.values);
  if (setting.flag == "--export-header")
    for (std::string& value : values) value = value.substr(0, value.find(':')) + ": (hidden)";
  if (setting.flag == "--export" || setting.flag == "--export-signals")
    for (std::string& value : values) value = with_hidden_password(value);
  const std::string usual = key.usual;
  std::string line = std::string(name.substr(name.find('.') + 1)) + " = ";
  if (!setting.source.empty())
    line += agent::toml_value(setting.key.kind, values);
  else
    line = usual.empty() ? '#' + line + (setting.key.kind == ValueKind::flag ? "true" : "\"\"")
                         : line + usual;
  return fmt::format("{:<40}  # {}\n", line,
                     !setting.source.empty() ? setting.source
                     : usual.empty()         ? "not set"
                                             : "default");
}

}  // namespace

std::string AgentConfiguration::text() const {
  std::string out, table;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string_view name = settings[i].key.name;
    const std::size_t dot = name.find('.');
    if (table != name.substr(0, dot)) {
      table = name.substr(0, dot);
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", table);
    }
    out += line_of(agent_keys[i], settings[i]);
  }
  for (const auto& trace : traces) {
    out += fmt::format("\n[[{}]]\n", trace_table);
    for (std::size_t i = 0; i < trace.size(); ++i) out += line_of(TraceTable::keys()[i], trace[i]);
  }
  if (!traces.empty()) return out;
  // The keys that there are.
  out += fmt::format("\n#[[{}]]\n", trace_table);
  for (const AgentKey& key : TraceTable::keys()) {
    const std::string line = line_of(key, {key.key, key.flag, {}, {}});
    out += line.starts_with('#') ? line : '#' + line;
  }
  return out;
}

bool AgentConfiguration::same(const AgentConfiguration& other,
                              const std::vector<std::string>& tables) const {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const bool concerned =
        tables.empty() || std::ranges::any_of(tables, [&](const std::string& table) {
          return settings[i].key.name.starts_with(table);
        });
    if (concerned && settings[i].values != other.settings[i].values) return false;
  }
  const auto has = [](const std::vector<AgentSetting>& left,
                      const std::vector<AgentSetting>& right) {
    return std::ranges::equal(left, right, {}, &AgentSetting::values, &AgentSetting::values);
  };
  const bool concerned = tables.empty() || std::ranges::find(tables, "trace.") != tables.end();
  return !concerned || std::ranges::equal(traces, other.traces, has);
}

}  // namespace vitrine::cli
