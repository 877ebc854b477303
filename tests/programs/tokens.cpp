// tokens COUNT: prints its pid and host name, and then that many owner tokens, a line each.

#include <unistd.h>
#include <redlock/redlock.hpp>

#include <array>
#include <cstdlib>
#include <iostream>

int main(int count, char** words) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::cout << ::getpid() << ' ' << host.data() << '\n';
  const int wanted = count > 1 ? std::atoi(words[1]) : 1;
  for (int i = 0; i < wanted; ++i) std::cout << redlock::OwnerToken::generate() << '\n';
}
