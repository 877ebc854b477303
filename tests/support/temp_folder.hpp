#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace redlock::testing {

/// A private folder under $TMPDIR or /tmp, removed with all its content at the end.
class TempFolder {
 public:
  TempFolder() : path_{make()} {}
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  static std::filesystem::path make() {
    // A Unix socket's path has room for 107 bytes: a long $TMPDIR (macOS, some CI systems) leaves too few for the
    // socket's name.
    const char* wanted = std::getenv("TMPDIR");
    std::string base = wanted != nullptr && *wanted != '\0' ? wanted : "/tmp";
    if (base.size() > 60) base = "/tmp";
    std::string path = base + "/redlock-test-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw std::system_error{errno, std::generic_category(), path};
    return path;
  }

  const std::filesystem::path path_;
};

}  // namespace redlock::testing
