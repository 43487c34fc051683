#include "cli/agent/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "base/file_descriptor.hpp"
#include "cli/output/live.hpp"
#include "cli/output/text.hpp"
#include "cli/profile/outputs.hpp"
#include "cli/shell/report.hpp"
#include "sandbox/capabilities.hpp"

namespace vitrine::cli {
namespace {

std::atomic<bool> reload_asked{false};

/// What signals are made by.
const std::vector<std::string> signal_settings{"export.", "labels.", "metrics.", "trace."};

/// Without a look at the samples for so long, something is stuck.
constexpr std::chrono::seconds max_silence{30};

profile::EncodeOptions encoding_of(const AgentConfiguration& configuration) {
  profile::EncodeOptions encoding = configuration.request->view.encoding;
  encoding.title = "all processes";
  return encoding;
}

/// Of what sends no more: what waits in a spool is counted again by the one that goes on with it.
exporter::ExportCounters final_counters(exporter::ExportCounters counters) {
  counters.waiting = counters.waiting_bytes = counters.oldest_ns = counters.unwritten = 0;
  return counters;
}

/// Requests that end with a sender: in memory, those that were not accepted in time.
std::uint64_t unsent_at_end(const ProfileSender& sender, const exporter::ExportCounters& counters) {
  return sender.spool().empty() ? counters.waiting : counters.unwritten;
}

void give_up_all() {
  (void)sandbox::keep_only({});
}

}  // namespace

void catch_reloads() {
  struct sigaction action {};
  action.sa_handler = [](int) { reload_asked = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
}

int AgentRun::run(AgentConfiguration first) {
  before_.started_ns = unix_time_ns();
  counts_ = before_;  // no page is served yet
  allow_many_files();
  auto begun = begin(std::move(first));
  if (!begun) return interrupted() ? exit_done : cli::report(begun.error());
  now_ = std::move(*begun);
  sender_ = std::move(now_.sender);
  server_ = std::move(now_.server);
  open_signals();
  begin_writing();
  publish();
  print_error("vitrine: {}\n", printable(summary()));
  manager_.ready(summary());
  for (;;) {
    const AgentRequest& request = *now_.configuration.request;
    agent::ContinuousOptions options{request.every, request.naming, {}, {}};
    options.select = [&view = request.view, signals = signals_](profile::Profile taken) {
      profile::Profile selected = view.select(std::move(taken));
      signals->add(selected);
      return selected;
    };
    const auto done = agent::profile_continuously(*now_.profiling, *now_.writer, options, *this);
    if (!done) return end(cli::report(done.error()));
    if (interrupted() || !next_) return end(exit_done);
    hand_over();
  }
}

/// The first of all. The rights that only the start needs are dropped then, or held back.
Result<AgentRun::Session> AgentRun::begin(AgentConfiguration configuration) {
  Session session = TRY(prepare(std::move(configuration)));
  TRY(go_on_confined(needs_));
  const auto held = sandbox::effective_capabilities();
  // Where it replaces smaller ones that are not there, it stays in effect.
  if (held.has_all(capabilities::bpf)) held_back_ = held & capabilities::admin;
  if (!held_back_.empty()) TRY(sandbox::put_into_effect(held_back_, false));
  return session;
}

Result<AgentRun::Session> AgentRun::prepare(AgentConfiguration configuration) {
  Session session{std::move(configuration), {}, {}, {}, {}, {}, false};
  const AgentRequest& request = *session.configuration.request;
  TRY(request.check_outputs());
  for (const ProfileOutput& output : request.view.outputs) TRY(check_writable(output));
  const AgentRequest* const before = now_.configuration.request.get();
  session.replaces_sender =
      before == nullptr || !session.configuration.same(now_.configuration, {"export.", "labels."});
  if (session.replaces_sender && request.sending.given()) {
    // The spool of the sender that is to end is still its own.
    const bool waits = before != nullptr && !request.sending.spool().empty() &&
                       request.sending.spool() == before->sending.spool();
    using Spooling = SendingOptions::Spooling;
    auto sender = TRY(request.sending.open(encoding_of(session.configuration),
                                           waits ? Spooling::off : Spooling::on));
    if (!waits) session.sender = std::move(sender);
  }
  if (before == nullptr || request.listen != before->listen)
    session.server = TRY(listen(session.configuration));
  if (before == nullptr || !session.configuration.same(now_.configuration, signal_settings)) {
    session.signals = TRY(AgentSignals::open(request.metrics, request.traces, signals_.get()));
    // Whether what they send can be sent; their spools may still be in use.
    TRY(session.signals->open_senders(request.sending, SendingOptions::Spooling::off));
  }
  observe::ProfilingOptions options = request.options;
  options.stop = options.hurry = &interrupted();
  session.profiling = TRY(observe::Profiling::open(std::move(options)));
  return session;
}

Result<std::unique_ptr<agent::HttpServer>> AgentRun::listen(
    const AgentConfiguration& configuration) {
  const auto& address = configuration.request->listen;
  if (!address) return std::unique_ptr<agent::HttpServer>();
  return agent::HttpServer::open(
      *address, [this](std::string_view path) { return page(path); }, give_up_all);
}

void AgentRun::begin_writing() {
  now_.writer = std::make_unique<agent::ProfileWriter>(
      now_.configuration.request->view.outputs, encoding_of(now_.configuration), sender_.get());
}

bool AgentRun::is_over(std::size_t /*waiting*/) {
  manager_.alive();
  publish();
  signals_->print_notes();
  if (signals_->is_due()) signals_->publish(own_metrics());
  if (interrupted()) return true;
  if (!preparing_.valid() && reload_asked.exchange(false)) begin_reload();
  if (preparing_.valid() &&
      preparing_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout)
    end_reload();
  return next_ != nullptr;
}

void AgentRun::report(const std::vector<std::string>& notes, const std::vector<Error>& errors) {
  for (const Error& error : errors) cli::report(error);
  for (const std::string& text : notes) note(text);
  if (sender_) print_notes(*sender_);
}

/// Without a profiling: nothing has changed.
Result<AgentRun::Session> AgentRun::prepare_reload() try {
  AgentConfiguration configuration = TRY(load_());
  if (configuration.same(now_.configuration, {})) return Session{};
  return with_in_effect(held_back_, [&] { return prepare(std::move(configuration)); });
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::failed, "not enough memory for another configuration");
}

void AgentRun::begin_reload() {
  manager_.reloading();
  preparing_ =
      std::async(std::launch::async | std::launch::deferred, [this] { return prepare_reload(); });
}

void AgentRun::end_reload() {
  auto prepared = preparing_.get();
  if (!prepared) {
    ++before_.failed_reloads;
    publish();
    cli::report(prepared.error());
    note("the configuration is not reloaded: the previous one stays in force");
    manager_.ready("the configuration was refused at a reload; " + summary());
    return;
  }
  ++before_.reloads;
  publish();
  if (prepared->profiling == nullptr) {
    note("the configuration is reloaded: nothing changed");
    manager_.ready(summary());
    return;
  }
  next_ = std::make_unique<Session>(std::move(*prepared));
  now_.profiling->end_sampling();
  next_->profiling->begin_anew();
  poll_while([&] { return now_.writer->busy(); });
}

void AgentRun::poll_while(const std::function<bool()>& busy) {
  while (busy()) {
    manager_.alive();
    // An error comes again at the next look.
    (void)next_->profiling->poll(agent::poll_time);
  }
}

/// The last profile of the old session is with its writer.
void AgentRun::hand_over() {
  poll_while([&] { return now_.writer->busy(); });
  report(now_.profiling->take_notes(), now_.writer->wait());
  before_.profiles += now_.writer->counts();
  now_.writer.reset();
  if (next_->replaces_sender) close_sender();
  if (next_->signals) close_signals();
  AgentConfiguration before = std::move(now_.configuration);
  const bool listens_anew = next_->configuration.request->listen != before.request->listen;
  now_.profiling.reset();
  now_ = std::move(*next_);
  next_.reset();
  if (listens_anew) server_ = std::move(now_.server);
  if (now_.replaces_sender) open_sender(now_.configuration, before);
  if (now_.signals) open_signals();
  begin_writing();
  publish();
  note("the configuration is reloaded");
  print_error("vitrine: {}\n", printable(summary()));
  manager_.ready(summary());
}

void AgentRun::finish_while_polling(const std::function<void()>& finish) {
  auto finishing = std::async(std::launch::async | std::launch::deferred, finish);
  poll_while(
      [&] { return finishing.wait_for(std::chrono::seconds(0)) == std::future_status::timeout; });
  finishing.get();
}

OwnMetrics AgentRun::own_metrics() {
  const std::lock_guard lock(mutex_);
  return {agent::own_metrics(counts_, unix_time_ns()), counts_.started_ns};
}

void AgentRun::close_signals() {
  finish_while_polling(
      [&, own = own_metrics()] { (void)signals_->finish(own, next_->signals.get()); });
  before_.sending += final_counters(signals_->counters());
  signals_->close_senders();  // their spools are for the next ones
}

/// Those of the session that begins.
void AgentRun::open_signals() {
  std::shared_ptr<AgentSignals> signals = std::move(now_.signals);
  const auto opened =
      signals->open_senders(now_.configuration.request->sending, SendingOptions::Spooling::on);
  if (!opened) {
    cli::report(opened.error());
    note("metrics, spans and log records are not sent");
  }
  signals->begin(held_back_);
  const std::lock_guard lock(mutex_);
  signals_ = std::move(signals);
}

void AgentRun::close_sender() {
  if (!sender_) return;
  finish_while_polling([&] { sender_->finish(); });
  print_notes(*sender_);
  exporter::ExportCounters counters = sender_->counters();
  const std::uint64_t lost = unsent_at_end(*sender_, counters);
  if (lost != 0) note(counted(lost, "request") + " not accepted in time and lost");
  counters.overflowed += lost;
  before_.sending += final_counters(counters);
  sender_.reset();
}

void AgentRun::open_sender(const AgentConfiguration& configuration,
                           const AgentConfiguration& before) {
  sender_ = std::move(now_.sender);
  if (sender_ || !configuration.request->sending.given()) return;
  for (const AgentConfiguration* one : {&configuration, &before}) {
    auto opened = one->request->sending.open(encoding_of(*one));
    if (opened) {
      sender_ = std::move(*opened);
      return;
    }
    cli::report(opened.error());
    note("profiles go where they went before the reload");
  }
}

/// SIGTERM, or an error that ends the sampling: what there is goes out.
int AgentRun::end(int status) {
  manager_.stopping();
  const std::vector<Error> errors = now_.writer->wait();
  report(now_.profiling->take_notes(), errors);
  auto finishing = std::async(std::launch::async | std::launch::deferred,
                              [&, own = own_metrics()] { return signals_->finish(own); });
  if (sender_) {
    finish(*sender_);
    if (unsent_at_end(*sender_, sender_->counters()) != 0 && status == exit_done)
      status = exit_failed;
  }
  if (!finishing.get() && status == exit_done) status = exit_failed;
  publish();
  if (preparing_.valid()) preparing_.wait();  // it sees that it is interrupted
  server_.reset();
  const agent::ProfileCounts& profiles = counts_.profiles;
  print_error("vitrine: {} with {}, {} lost\n", counted(profiles.profiles, "profile"),
              counted(profiles.samples, "sample"), profiles.lost);
  return status;
}

void AgentRun::publish() {
  agent::AgentCounts counts = before_;
  if (now_.writer) counts.profiles += now_.writer->counts();
  if (sender_) counts.sending += sender_->counters();
  if (signals_) counts.sending += signals_->counters();
  const std::lock_guard lock(mutex_);
  counts_ = counts;
  seen_alive_ = agent::Clock::now();
}

agent::HttpResponse AgentRun::page(std::string_view path) {
  agent::HttpResponse response;
  std::unique_lock lock(mutex_);
  agent::AgentCounts counts = counts_;
  const std::shared_ptr<AgentSignals> signals = signals_;
  const agent::Clock::time_point seen_alive = seen_alive_;
  lock.unlock();
  const auto silence = std::chrono::floor<std::chrono::seconds>(agent::Clock::now() - seen_alive);
  const bool is_starting = seen_alive == agent::Clock::time_point();
  counts.is_up = !is_starting && silence < max_silence;
  if (path == "/metrics") {
    response.type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    std::vector<telemetry::Metric> all = agent::own_metrics(counts, unix_time_ns());
    if (signals) telemetry::merge(all, signals->metrics());
    response.body = telemetry::openmetrics_text(all);
  } else if (path == "/healthz") {
    response.status = counts.is_up ? 200 : 503;
    response.body = counts.is_up  ? "ok\n"
                    : is_starting ? "starting\n"
                                  : fmt::format("no samples taken for {} s\n", silence.count());
  } else {
    response.status = 404;
    response.body = "/healthz, /metrics\n";
  }
  return response;
}

std::string AgentRun::summary() const {
  const AgentRequest& request = *now_.configuration.request;
  std::string text = "profiling: ";
  if (request.options.on_cpu) text += fmt::format("on CPU at {} Hz", request.options.frequency);
  if (request.options.on_cpu && request.options.off_cpu) text += " and ";
  if (request.options.off_cpu) text += "off CPU";
  text += fmt::format(", every {} ms", request.every.count());
  if (server_)
    text += fmt::format("; metrics at http://{}/metrics",
                        agent::ListenAddress{request.listen->host, server_->port()}.text());
  return text;
}

}  // namespace vitrine::cli
