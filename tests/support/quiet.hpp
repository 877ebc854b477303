#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

namespace redlock::testing {

/// AddressSanitizer forks with its own locks as they are: one that another thread holds at that moment, because it
/// allocates or starts, stays taken in the child for ever.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool is_fork_unsafe = true;
#else
inline constexpr bool is_fork_unsafe = false;
#endif

/// Whether all other threads of this process sleep.
inline bool others_sleep() {
  std::error_code ended;  // a thread may end meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ended)) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);  // thread (name) state …
    if (!stat.empty() && !std::string_view(stat).substr(stat.rfind(')') + 1).starts_with(" S")) return false;
  }
  return true;
}

/// To be called before fork(). Where that needs it, waits until all other threads sleep, for 100 ms at most.
inline void quiet_before_fork() {
  if constexpr (is_fork_unsafe) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!others_sleep() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }
}

}  // namespace redlock::testing
