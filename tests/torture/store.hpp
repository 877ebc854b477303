#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace redlock::torture {

// What a lock protects: a number in a file, which its holder reads, and writes one higher. It sees the fencing token with
// both, and refuses one that is smaller than the largest it saw; so no write is lost whose holder was told that it was
// done. With reading alone unfenced, one would be: two read the same number, and the older writes first.
//
// Thread safety: one thread at a time; several processes.
class FencedStore {
 public:
  struct Item {
    std::uint64_t fence = 0, number = 0;
    std::uint64_t stale = 0;  // writes of a smaller token that were accepted: without `enforce`
  };

  FencedStore(const std::string& file, bool enforce)
      : file_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), enforce_(enforce) {
    if (file_ < 0) throw std::runtime_error("cannot open " + file);
  }
  FencedStore(const FencedStore&) = delete;
  FencedStore& operator=(const FencedStore&) = delete;
  ~FencedStore() { ::close(file_); }

  // False: refused.
  bool read(std::uint64_t fence, std::uint64_t& number) {
    const Guard guard(file_);
    Item item = load();
    if (enforce_ && fence < item.fence) return false;
    number = item.number;
    if (fence > item.fence) item.fence = fence;
    return save(item);
  }
  bool write(std::uint64_t fence, std::uint64_t number) {
    const Guard guard(file_);
    Item item = load();
    if (fence < item.fence) {
      if (enforce_) return false;
      ++item.stale;
    } else {
      item.fence = fence;
    }
    item.number = number;
    return save(item);
  }

  Item load() const {
    Item item;
    if (::pread(file_, &item, sizeof item, 0) < 0) throw std::runtime_error("cannot read the store");
    return item;
  }

 private:
  // Of a process that is killed the kernel lets it go, and what it wrote in one call is written.
  struct Guard {
    explicit Guard(int file) : file_(file) { (void)::flock(file_, LOCK_EX); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { (void)::flock(file_, LOCK_UN); }
    const int file_;
  };

  bool save(const Item& item) const {
    if (::pwrite(file_, &item, sizeof item, 0) != sizeof item) throw std::runtime_error("cannot write the store");
    return true;
  }

  const int file_;
  const bool enforce_;
};

}  // namespace redlock::torture
