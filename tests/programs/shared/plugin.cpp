// A shared object, built with hidden visibility, with the library inside of it.

#include <redlock/redlock.hpp>

#include <chrono>
#include <system_error>

namespace {
using namespace std::chrono_literals;
}

// Throws what a client in here throws.
extern "C" [[gnu::visibility("default")]] void plugin_fail(const char* uri) {
  redlock::Client client{uri, {.retry_for = 0ms}};
  redlock::Lock lock{client, "name"};
}

extern "C" [[gnu::visibility("default")]] void plugin_lose(const char* name) {
  throw redlock::LeaseLost(name, redlock::LeaseLost::Reason::taken);
}

extern "C" [[gnu::visibility("default")]] bool plugin_timed_out(const std::error_code* code) {
  return *code == std::errc::timed_out && *code != std::errc::connection_refused;
}

// Uses all of its threads: renewals, a callback, something to take back.
extern "C" [[gnu::visibility("default")]] bool plugin_use(const char* uri) {
  redlock::Client client{uri};
  redlock::Lock renewed{client, "plugin's", {.ttl = 300ms, .on_lost = [](const redlock::LeaseLost&) {}}};
  redlock::Lock lost{client, "lost", {.ttl = 50ms, .watchdog = false, .on_lost = [](const redlock::LeaseLost&) {}}};
  while (client.stats().renewed < 2 || client.stats().lost < 1) {
    if (!renewed.owns_lock()) return false;
  }
  return renewed.unlock() == redlock::UnlockResult::released;
}
