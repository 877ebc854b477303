// A program that ends by exit() while its threads are in the middle of TLS.
//
//   tls_exit URI CA

#include <redlock/redlock.hpp>
#include <redlock/tls.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
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
