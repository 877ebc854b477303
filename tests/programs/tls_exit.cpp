// A program that ends by exit() while its threads are in the middle of TLS.
//
//   tls_exit URI CA

#include <redlock/redlock.hpp>
#include <redlock/tls.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Users {
  redlock::Client client;
  std::vector<redlock::Lock> locks;
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 64;
  const std::string uri = words[1];
  const redlock::ClientOptions options{.transport = redlock::tls({.ca = words[2]})};
  // Never destroyed: its threads run on while the process is torn down.
  static Users& users = *new Users{redlock::Client{uri, options}, {}};
  for (int i = 0; i < 20; ++i) {
    users.locks.emplace_back(users.client, "name " + std::to_string(i),
                             redlock::LockOptions{.ttl = std::chrono::milliseconds(12)});
  }
  constexpr int threads = 4;
  const auto begun = std::make_shared<std::latch>(threads);  // theirs, too
  for (int i = 0; i < threads; ++i) {
    std::thread([uri, options, begun] {
      for (bool is_first = true;; is_first = false) {
        try {
          redlock::Connection{uri, options}.command("PING");
          if (is_first) begun->count_down();
        } catch (const std::exception&) {
          return;
        }
      }
    }).detach();
  }
  begun->wait();
  std::exit(0);  // NOLINT(concurrency-mt-unsafe)
}
