// A program whose host names are answered by its own getaddrinfo(): several addresses, or no answer for a long time.
//
//   resolver many PORT TIMEOUT ADDRESS…   locks over a host with these addresses; an address 127.0.0.2 accepts nobody
//   resolver hang PORT TIMEOUT            the look-up hangs from the beginning
//   resolver later PORT TIMEOUT           the look-up hangs from the moment at which a lock is held
//
// TIMEOUT: connect_timeout in ms.
//
// Prints what happened, a line each: "word milliseconds".

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

std::atomic<bool> hanging = false;
std::vector<std::string> addresses = {"127.0.0.1"};

int real_getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  static const auto function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return function(node, service, hints, result);
}

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  if (node == nullptr || std::string_view(node) != "host.test" || (hints->ai_flags & AI_NUMERICHOST) != 0) {
    return real_getaddrinfo(node, service, hints, result);
  }
  if (hanging) std::this_thread::sleep_for(10s);
  addrinfo** end = result;
  for (const std::string& address : addresses) {
    if (const int error = real_getaddrinfo(address.c_str(), service, hints, end); error != 0) return error;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return 0;
}

namespace {

// A listener that never accepts, with a full queue: whoever connects waits.
void be_deaf(const char* address, std::uint16_t port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &where.sin_addr);
  const auto* raw = reinterpret_cast<const sockaddr*>(&where);
  if (::bind(listener, raw, sizeof where) != 0 || ::listen(listener, 0) != 0) std::abort();
  for (int i = 0; i < 8; ++i) {
    const int guest = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ::connect(guest, raw, sizeof where);
  }
}

void report(const std::function<std::string_view()>& step) {
  const auto start = std::chrono::steady_clock::now();
  std::string word;
  try {
    word = step();
  } catch (const redlock::Error& error) {
    word = "error " + std::to_string(error.code().value());
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  std::cout << word << ' ' << took.count() << std::endl;
}

std::string_view attempt(redlock::Client& client, const char* name, std::chrono::milliseconds wait) {
  const redlock::Lock lock{client, name, wait};
  return lock ? "locked" : "held";
}

void hold_while_the_resolver_hangs(redlock::Client& client, const std::string& port) {
  redlock::Lock lock{client, "held", {.ttl = 1500ms}};
  redlock::Connection control{redlock::Uri("redis://127.0.0.1:" + port)};
  hanging = true;
  for (int i = 0; i < 4; ++i) {  // for longer than two leases
    control.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    report([&] { return attempt(client, "other", 900ms); });
    std::this_thread::sleep_for(900ms);
  }
  report([&] { return lock.owns_lock() ? "owned" : "lost"; });
  report([&] { return lock.unlock() == redlock::UnlockResult::released ? "released" : "not released"; });
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  const std::string what = words[1], port = words[2];
  const std::chrono::milliseconds timeout{std::stoi(words[3])};
  if (count > 4) addresses.assign(words + 4, words + count);
  for (const std::string& address : addresses) {
    if (address == "127.0.0.2") be_deaf("127.0.0.2", static_cast<std::uint16_t>(std::stoi(port)));
  }
  hanging = what == "hang";
  redlock::Client client{"redis://host.test:" + port, {.connect_timeout = timeout, .command_timeout = 5s}};
  if (what == "later") {
    hold_while_the_resolver_hangs(client, port);
  } else {
    report([&] { return attempt(client, "name", 0ms); });
    report([&] { return attempt(client, "name", 300ms); });
    report([&] { return attempt(client, "name", 0ms); });
  }
  std::cout << "end" << std::endl;
}
