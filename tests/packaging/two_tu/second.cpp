// The macros that <windows.h> and many C headers bring, in the worst order: the standard headers do not bear them (they
// undefine them), so these come first; redlock's headers must bear them.
#include <bits/stdc++.h>

#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))

#include <redlock/redlock.hpp>

#if !defined(min) || !defined(max)
#error "the macros are gone, so this file tests nothing"
#endif

const void* client_in_second_unit();

const void* client_in_second_unit() {
  static const redlock::Client client{"redis://127.0.0.1"};
  return &client;
}
