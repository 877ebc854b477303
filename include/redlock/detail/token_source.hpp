#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// New owner tokens, sixteen for one system call where they are needed in quick succession. It belongs to a State, and so
// to one process: a forked child has another one. What is older than 100 ms is thrown away: a machine may be cloned while
// it runs, and both would give it out.
//
// Thread safety: all members.
class TokenSource {
 public:
  OwnerToken next(TimePoint now) {
    const std::lock_guard guard(mutex_);
    if (used_ == bytes_.size() || now - fetched_ > std::chrono::milliseconds(100)) {
      bytes_ = random_bytes<256>();
      used_ = 0;
      fetched_ = now;
    }
    std::array<unsigned char, 16> token;  // NOLINT(*-member-init): filled below
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(used_), token.size(), token.begin());
    used_ += token.size();
    return OwnerToken::from(token);
  }

 private:
  // Guarded by mutex_.
  std::mutex mutex_;
  std::array<unsigned char, 256> bytes_ = {};
  std::size_t used_ = 256;
  TimePoint fetched_;
};

}  // namespace redlock::detail
