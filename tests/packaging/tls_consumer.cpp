// The same with TLS. Nothing listens there, and nothing has to.
#include <iostream>
#include <redlock/redlock.hpp>
#include <redlock/tls.hpp>

int main() {
  const redlock::Client client{"rediss://127.0.0.1", {.transport = redlock::tls()}};
  std::cout << REDLOCK_VERSION_MAJOR << '.' << REDLOCK_VERSION_MINOR << '.' << REDLOCK_VERSION_PATCH << '\n';
}
