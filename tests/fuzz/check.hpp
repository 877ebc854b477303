#pragma once

#include <cstdio>
#include <cstdlib>

namespace redlock::fuzz {

// What must hold. Where it does not, the fuzzer keeps the input.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace redlock::fuzz
