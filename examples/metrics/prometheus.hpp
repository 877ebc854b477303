#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <locale>
#include <redlock/redlock.hpp>
#include <sstream>
#include <string>
#include <utility>

// What a service answers at /metrics: a Client's Stats in Prometheus's text format,
// https://prometheus.io/docs/instrumenting/exposition_formats/
class PrometheusText {
 public:
  explicit PrometheusText(const redlock::Stats& stats) {
    out_.imbue(std::locale::classic());
    out_.precision(12);
    counter("acquired", "locks taken", stats.acquired);
    counter("contended", "attempts that found the lock held by another", stats.contended);
    counter("timed_out", "waits that ended while another held the lock", stats.timed_out);
    counter("released", "unlocks that Redis confirmed, or that passed the lock on", stats.released);
    counter("unconfirmed", "unlocks without an answer", stats.unconfirmed);
    counter("lost", "leases that ended without an unlock", stats.lost);
    counter("renewed", "renewals that Redis confirmed", stats.renewed);
    counter("handed_off", "unlocks that passed the lock on inside of the process", stats.passed);
    counter("chased", "commands and places in a queue that are taken back in the background", stats.chased);
    counter("connected", "connections made", stats.connected);
    begin("attempts_of_waiters_total", "counter", "by what woke the waiter");
    out_ << "redlock_attempts_of_waiters_total{cause=\"told\"} " << stats.woken << '\n'
         << "redlock_attempts_of_waiters_total{cause=\"timer\"} " << stats.polled << '\n';
    begin("polling", "gauge", "1: the server tells waiters nothing, so that they poll");
    out_ << "redlock_polling " << (stats.wakeups == redlock::Wakeups::polling ? 1 : 0) << '\n';
    failures(stats);
    histogram("wait_seconds", "how long locks were waited for", stats.waited);
    histogram("hold_seconds", "how long locks were held", stats.held);
  }

  std::string text() const { return out_.str(); }

 private:
  // Dashboards keep what a message may lose.
  static constexpr std::pair<redlock::errc, const char*> kinds[] = {
      {redlock::errc::connect_failed, "connect_failed"},
      {redlock::errc::connection_lost, "connection_lost"},
      {redlock::errc::timed_out, "timed_out"},
      {redlock::errc::protocol_error, "protocol_error"},
      {redlock::errc::unauthenticated, "unauthenticated"},
      {redlock::errc::no_permission, "no_permission"},
      {redlock::errc::wrong_type, "wrong_type"},
      {redlock::errc::out_of_memory, "out_of_memory"},
      {redlock::errc::misconfigured, "misconfigured"},
      {redlock::errc::no_replicas, "no_replicas"},
      {redlock::errc::read_only, "read_only"},
      {redlock::errc::loading, "loading"},
      {redlock::errc::master_down, "master_down"},
      {redlock::errc::cluster_down, "cluster_down"},
      {redlock::errc::try_again, "try_again"},
      {redlock::errc::busy, "busy"},
      {redlock::errc::server_error, "server_error"},
      {redlock::errc::lease_lost, "lease_lost"},
      {redlock::errc::restarted, "restarted"},
      {redlock::errc::redirected, "redirected"},
  };
  static_assert(std::size(kinds) + 1 == redlock::errc_end);

  void begin(const std::string& name, const char* type, const char* help) {
    out_ << "# HELP redlock_" << name << ' ' << help << "\n# TYPE redlock_" << name << ' ' << type << '\n';
  }

  void counter(const std::string& name, const char* help, std::uint64_t value) {
    begin(name + "_total", "counter", help);
    out_ << "redlock_" << name << "_total " << value << '\n';
  }

  void failures(const redlock::Stats& stats) {
    begin("failed_total", "counter", "commands without an answer, or with an error for one");
    for (const auto& [code, kind] : kinds) {
      out_ << "redlock_failed_total{kind=\"" << kind << "\"} " << stats.failed_with(code) << '\n';
    }
  }

  void histogram(const std::string& name, const char* help, const redlock::Histogram& times) {
    const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
    begin(name, "histogram", help);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i + 1 < redlock::Histogram::size; ++i) {
      sum += times.counts[i];
      out_ << "redlock_" << name << "_bucket{le=\"" << seconds(redlock::Histogram::bound(i)) << "\"} " << sum << '\n';
    }
    sum += times.counts.back();
    out_ << "redlock_" << name << "_bucket{le=\"+Inf\"} " << sum << '\n'
         << "redlock_" << name << "_sum " << seconds(times.sum) << '\n'
         << "redlock_" << name << "_count " << sum << '\n';
  }

  std::ostringstream out_;
};
