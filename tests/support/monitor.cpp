#include "monitor.hpp"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace redlock::testing {
namespace {

using namespace std::chrono_literals;

const std::string marker_prefix = "redlock-test-marker-";

char unescaped(char letter) {
  switch (letter) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'a': return '\a';
    case 'b': return '\b';
    default: return letter;
  }
}

/// Takes one quoted word off the front.
std::optional<std::string> take_word(std::string_view& rest) {
  std::string word;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return word;
    }
    if (rest[i] != '\\') {
      word += rest[i];
      continue;
    }
    if (++i >= rest.size()) break;
    unsigned byte = 0;
    const bool hex = rest[i] == 'x' && i + 2 < rest.size();
    if (hex && std::from_chars(&rest[i + 1], &rest[i + 1] + 2, byte, 16).ec == std::errc{}) {
      word += static_cast<char>(byte);
      i += 2;
    } else {
      word += unescaped(rest[i]);
    }
  }
  return std::nullopt;
}

bool same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::string new_marker() {
  static std::atomic<unsigned> next{0};
  return marker_prefix + std::to_string(::getpid()) + "-" + std::to_string(++next);
}

}  // namespace

std::optional<Seen> parse_monitor_line(std::string_view line) {
  // 1700000000.123456 [0 127.0.0.1:50000] "SET" "k" "v"
  const auto open = line.find(" [");
  const auto close = line.find("] \"");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const auto source = line.substr(open + 2, close - open - 2);
  const auto space = source.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  Seen seen{std::string{source.substr(space + 1)}, 0, {}};
  if (seen.client_address == "lua") return std::nullopt;
  std::from_chars(source.data(), source.data() + space, seen.db);
  for (auto rest = line.substr(close + 2); !rest.empty(); rest.remove_prefix(std::min<std::size_t>(1, rest.size()))) {
    auto word = take_word(rest);
    if (!word) return std::nullopt;
    seen.words.push_back(std::move(*word));
  }
  return seen;
}

Monitor::Monitor(RedisServer& server) : server_{server}, connection_{server.connect_unseen()} {
  const auto reply = connection_.command({"MONITOR"});
  if (reply.is_error()) throw std::runtime_error{"MONITOR: " + reply.text};
  connection_.set_limit(std::chrono::hours{24});
  thread_ = std::thread{[this] { record(); }};
}

Monitor::~Monitor() {
  connection_.shut_down();
  thread_.join();
}

void Monitor::sync() {
  const auto marker = new_marker();
  server_.command({"ECHO", marker});
  std::unique_lock lock{mutex_};
  const auto limit = std::chrono::system_clock::now() + 10s;
  changed_.wait_until(lock, limit, [&] { return ended_ || last_marker_ == marker; });
  if (last_marker_ != marker)
    throw std::runtime_error{ended_ ? "MONITOR's connection has ended" : "MONITOR does not show the marker"};
}

std::vector<Seen> Monitor::commands() const {
  const std::lock_guard guard{mutex_};
  return commands_;
}

std::vector<Seen> Monitor::commands_with(std::string_view text) const {
  auto found = commands();
  std::erase_if(found, [&](const Seen& seen) {
    return std::none_of(seen.words.begin(), seen.words.end(),
                        [&](const auto& word) { return word.find(text) != std::string::npos; });
  });
  return found;
}

std::size_t Monitor::count(const Predicate& predicate) const {
  const auto all = commands();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), predicate));
}

std::size_t Monitor::count(std::string_view name) const {
  return count([&](const Seen& seen) { return same_word(seen.words.front(), name); });
}

void Monitor::clear() {
  const std::lock_guard guard{mutex_};
  commands_.clear();
}

void Monitor::record() {
  try {
    for (;;) {
      if (auto seen = parse_monitor_line(connection_.receive().text)) add(std::move(*seen));
    }
  } catch (const ControlError&) {
  }
  const std::lock_guard guard{mutex_};
  ended_ = true;
  changed_.notify_all();
}

void Monitor::add(Seen seen) {
  const bool marker = seen.words.size() == 2 && seen.words[1].starts_with(marker_prefix);
  if (!marker && server_.is_unseen(seen.client_address)) return;
  const std::lock_guard guard{mutex_};
  if (marker) {
    last_marker_ = seen.words[1];
    changed_.notify_all();
  } else {
    commands_.push_back(std::move(seen));
  }
}

}  // namespace redlock::testing
