// A program that ends by exit() while its threads are in the middle of TLS.
//
//   tls_exit URI CA

#include <redlock/redlock.hpp>
#include <redlock/tls.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>

int main(int count, char** words) {
  if (count != 3) return 64;
  const std::string uri = words[1];
  const redlock::ClientOptions options{.transport = redlock::tls({.ca = words[2]})};
  // Never destroyed: their threads run on while the process is torn down.
  auto* client = new redlock::Client{uri, options};  // NOLINT(*-owning-memory)
  for (int i = 0; i < 20; ++i)
    new redlock::Lock{*client, "name " + std::to_string(i), {.ttl = std::chrono::milliseconds(12)}};
  for (int i = 0; i < 4; ++i) {
    std::thread([uri, options] {
      for (;;) {
        try {
          redlock::Connection{uri, options}.command("PING");
        } catch (const std::exception&) {
          return;
        }
      }
    }).detach();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::exit(0);  // NOLINT(concurrency-mt-unsafe)
}
