#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

// What the command line asks for.
struct Options {
  enum class Action { run, status, force_unlock };
  enum class Kind { lock, reader, writer, permit };

  Action action = Action::run;
  Kind kind = Kind::lock;
  std::vector<std::string> names;
  std::vector<std::string> command;
  std::vector<std::string> urls;                       // several: a quorum
  std::optional<std::chrono::milliseconds> wait = {};  // nullopt: for as long as it takes
  std::chrono::milliseconds ttl{0}, hold_at_least{0};
  int permits = 0;
  unsigned replicas = 0;
  int conflict_status = 1;
  bool fair = false, fencing = true, kill_when_lost = true, verbose = false;
  std::string ca, certificate, key;  // of TLS; files
};

// By any of its addresses: rediss, rediss+sentinel, rediss+cluster.
inline bool is_tls(const Options& options) {
  return std::any_of(options.urls.begin(), options.urls.end(),
                     [](const std::string& url) { return url.starts_with("rediss"); });
}

// nullopt: there is nothing to do; `status` is to be exited with, and help or a complaint was printed.
std::optional<Options> parse(int count, char** words, int& status);
