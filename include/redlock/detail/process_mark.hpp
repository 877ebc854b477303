#pragma once

#include <sys/mman.h>
#include <unistd.h>

namespace redlock::detail {

// Knows whether it was inherited by fork(): a page that the kernel empties in the child (MADV_WIPEONFORK, Linux 4.14).
// Reading it costs no system call, which getpid() does at every lock and unlock.
class ProcessMark {
 public:
  ProcessMark() noexcept : process_(::getpid()) {
    void* page = ::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (::madvise(page, 1, MADV_WIPEONFORK) != 0) {
      ::munmap(page, 1);
      return;
    }
    mark_ = static_cast<volatile char*>(page);
    *mark_ = 1;
  }
  ProcessMark(const ProcessMark&) = delete;
  ProcessMark& operator=(const ProcessMark&) = delete;
  ~ProcessMark() {
    if (mark_ != nullptr) ::munmap(const_cast<char*>(mark_), 1);  // NOLINT(*-const-cast): munmap takes no volatile
  }

  bool is_inherited() const noexcept { return mark_ != nullptr ? *mark_ == 0 : process_ != ::getpid(); }

 private:
  pid_t process_;
  volatile char* mark_ = nullptr;  // nullptr: an older kernel
};

}  // namespace redlock::detail
