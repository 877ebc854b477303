// A header-only library must link from several translation units: this one and second.cpp.
#include <redlock/redlock.hpp>

const void* client_in_second_unit();

int main() {
  const redlock::Client client{"redis://127.0.0.1"};
  return client_in_second_unit() == &client ? 1 : 0;
}
