#pragma once

#include <string>
#include <vector>

#include "temp_folder.hpp"

namespace redlock::testing {

/// A certificate authority, made with openssl(1), and what it signs. All is in files, in PEM format.
///
/// *Thread safety:* one thread at a time, but ca() from any. *Lifetime:* the files go with it. *On failure:*
/// std::runtime_error with what openssl(1) says.
class Certificates {
 public:
  /// A certificate and its private key.
  struct Pair {
    std::string certificate, key;
  };

  Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  /// One for all tests of a process.
  static Certificates& shared();

  [[nodiscard]] const std::string& ca() const noexcept { return ca_.certificate; }

  /// `names`: as openssl writes a subjectAltName, "DNS:localhost,IP:127.0.0.1". Empty: `common_name` alone.
  [[nodiscard]] Pair sign(const std::string& names, const std::string& common_name = "redlock test");

  /// What makes a RedisServer speak TLS, with clients and with other servers.
  [[nodiscard]] std::vector<std::string> server_args(const Pair& pair) const;

  /// The path of a new file with this content.
  [[nodiscard]] std::string file(const std::string& content);

 private:
  Pair make(const std::string& common_name, const std::string& extension, bool is_authority);
  std::string new_path();

  const TempFolder folder_;
  int files_ = 0;
  const std::string config_;
  const Pair ca_;
};

}  // namespace redlock::testing
