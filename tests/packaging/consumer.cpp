// The program of all three consumer projects. Constructing a client never connects.
#include <iostream>
#include <redlock/redlock.hpp>

int main() {
  const redlock::Client client{"redis://127.0.0.1"};
  std::cout << REDLOCK_VERSION_MAJOR << '.' << REDLOCK_VERSION_MINOR << '.' << REDLOCK_VERSION_PATCH << '\n';
}
