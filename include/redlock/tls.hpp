#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "redlock/error.hpp"
#include "redlock/options.hpp"
#include "redlock/transport.hpp"

// TLS by OpenSSL, and not by hiredis_ssl: that compares no names, wants a redisContext with its socket, and does not
// exist before hiredis 1.0.
namespace redlock {

// What of a server's certificate is checked.
enum class TlsVerify {
  full,         // that somebody who is trusted signed it, and that it is for the host of the address
  certificate,  // that somebody who is trusted signed it: whoever has one of those can pose as the server
  nothing,      // everybody can pose as the server
};

// Whom to trust, and who we are. Files are in PEM format.
struct TlsOptions {
  ByName by_name = ByName();

  // The authorities that are trusted: a file, or a folder as `openssl rehash` makes it. Empty: those of the system.
  std::string ca = {};

  // What a server is shown that asks for it (Redis' tls-auth-clients): files of the certificate, with those between it
  // and the authority behind it, and of its private key without a passphrase. Both or neither.
  std::string certificate = {};
  std::string key = {};

  // Whom the certificate must be for, a name or an IP address. Empty: the host as the address has it, which a Unix
  // socket has not. A name, and never an IP address, is told to the server (SNI).
  std::string server_name = {};

  // Less than `full` leaves the connection open to whoever is between us and the server.
  TlsVerify verify = TlsVerify::full;
};

namespace detail {

// The cause of the failure that OpenSSL reported last in this thread, in its words.
inline std::string openssl_reason() {
  const unsigned long error = ::ERR_get_error();  // the first: what follows came of it
  ::ERR_clear_error();
  if (ERR_GET_LIB(error) == ERR_LIB_SYS) return std::generic_category().message(ERR_GET_REASON(error));
  const char* reason = ::ERR_reason_error_string(error);
  return reason != nullptr ? reason : "OpenSSL gives no reason, error " + std::to_string(error);
}

struct FreeTls {
  void operator()(SSL* tls) const noexcept { ::SSL_free(tls); }
  void operator()(SSL_CTX* context) const noexcept { ::SSL_CTX_free(context); }
  void operator()(BIO* bytes) const noexcept { ::BIO_free(bytes); }
};

// One connection's TLS, between two buffers in memory.
//
// Thread safety: one thread at a time.
// On failure: ConnectionError, in OpenSSL's words: connect_failed where the server said nothing yet, since one that
// refuses our certificate may do so after a handshake that succeeded; else connection_lost.
class TlsChannel final : public Transport::Channel {
 public:
  // `name`: whom the certificate must be for. Empty: not asked.
  TlsChannel(SSL_CTX* context, const std::string& name, TlsVerify verify) : tls_(::SSL_new(context)) {
    std::unique_ptr<BIO, FreeTls> in(::BIO_new(::BIO_s_mem())), out(::BIO_new(::BIO_s_mem()));
    if (!tls_ || !in || !out) throw std::bad_alloc();
    in_ = in.get();
    out_ = out.get();
    ::SSL_set_bio(tls_.get(), in.release(), out.release());
    ::SSL_set_connect_state(tls_.get());
    ::ERR_clear_error();
    if (!name.empty() && !expect(name, verify))
      throw ConnectionError(errc::connect_failed, "TLS: the server's name is none: " + openssl_reason());
  }

  bool open() override {
    if (open_) return true;
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(tls_.get());
    open_ = result == 1;
    if (!open_ && ::SSL_get_error(tls_.get(), result) != SSL_ERROR_WANT_READ) fail(result);
    return open_;
  }

  void say(std::string_view text) override {
    std::size_t written = 0;
    ::ERR_clear_error();
    const int result = ::SSL_write_ex(tls_.get(), text.data(), text.size(), &written);
    if (result != 1) fail(result);
  }

  std::string to_network() override {
    std::string bytes(::BIO_ctrl_pending(out_), '\0');
    std::size_t read = 0;
    if (!bytes.empty()) ::BIO_read_ex(out_, bytes.data(), bytes.size(), &read);
    bytes.resize(read);
    return bytes;
  }

  void from_network(std::string_view bytes) override {
    std::size_t written = 0;
    if (::BIO_write_ex(in_, bytes.data(), bytes.size(), &written) != 1) throw std::bad_alloc();
  }

  // A failure behind something that was said comes with the next call.
  std::string heard() override {
    std::string text;
    if (!open()) return text;
    std::array<char, std::size_t{16} * 1024> record;  // NOLINT(*-member-init): written by OpenSSL
    int result = 1;
    ::ERR_clear_error();
    for (std::size_t length = 0; result == 1; text.append(record.data(), length)) {
      length = 0;
      result = ::SSL_read_ex(tls_.get(), record.data(), record.size(), &length);
    }
    heard_ = heard_ || !text.empty();
    if (text.empty() && ::SSL_get_error(tls_.get(), result) != SSL_ERROR_WANT_READ) fail(result);
    return text;
  }

 private:
  // False: OpenSSL does not take the name.
  bool expect(const std::string& name, TlsVerify verify) {
    X509_VERIFY_PARAM* const parameters = ::SSL_get0_param(tls_.get());
    in6_addr address{};
    const bool is_address = ::inet_pton(AF_INET, name.c_str(), &address) == 1 ||  //
                            ::inet_pton(AF_INET6, name.c_str(), &address) == 1;
    if (is_address) return verify != TlsVerify::full || ::X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) == 1;
    ::X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (verify == TlsVerify::full && ::X509_VERIFY_PARAM_set1_host(parameters, name.data(), name.size()) != 1)
      return false;
    return SSL_set_tlsext_host_name(tls_.get(), name.c_str()) == 1;
  }

  [[noreturn]] void fail(int result) const {
    const errc code = heard_ ? errc::connection_lost : errc::connect_failed;
    if (::SSL_get_error(tls_.get(), result) == SSL_ERROR_ZERO_RETURN)
      throw ConnectionError(errc::connection_lost, "the server closed the connection");
    const unsigned long error = ::ERR_peek_error();
    const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    std::string what = "TLS: ";
    if (reason > SSL_AD_REASON_OFFSET) what += "the server refuses: ";
    what += openssl_reason();
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
      what += std::string(": ") + ::X509_verify_cert_error_string(::SSL_get_verify_result(tls_.get()));
    if (reason == SSL_R_WRONG_VERSION_NUMBER) what += ", perhaps what answers does not speak TLS";
    throw ConnectionError(code, what);
  }

  std::unique_ptr<SSL, FreeTls> tls_;
  BIO* in_ = nullptr;  // from the network; both belong to tls_
  BIO* out_ = nullptr;
  bool open_ = false, heard_ = false;
};

// Thread safety: all members; what the channels share is OpenSSL's own to guard.
class TlsTransport final : public Transport {
 public:
  explicit TlsTransport(const TlsOptions& options) : verify_(options.verify), server_name_(options.server_name) {
    // At exit OpenSSL would tear down what connections in background threads still use.
    ::OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
    ::ERR_clear_error();
    context_.reset(::SSL_CTX_new(::TLS_client_method()));
    if (!context_) throw std::runtime_error("redlock: TLS: " + openssl_reason());
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    ::SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION);
    ::SSL_CTX_set_verify(context_.get(), verify_ == TlsVerify::nothing ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    trust(options.ca);
    if (options.certificate.empty() != options.key.empty())
      throw std::invalid_argument("redlock: TLS: of certificate and key one is missing");
    if (!options.certificate.empty()) introduce(options.certificate, options.key);
  }

  std::unique_ptr<Channel> channel(const std::string& host) const override {
    std::string name = server_name_.empty() ? host : server_name_;
    if (name.ends_with('.')) name.pop_back();              // of a name that is complete; certificates and SNI have none
    name.resize((std::min)(name.find('%'), name.size()));  // the zone of an IPv6 address
    if (name.empty() && verify_ == TlsVerify::full)
      throw ConnectionError(errc::connect_failed, "TLS: the address has no host: set TlsOptions::server_name");
    return std::make_unique<TlsChannel>(context_.get(), name, verify_);
  }

 private:
  void trust(const std::string& ca) {
    std::error_code ignored;
    const bool is_folder = std::filesystem::is_directory(ca, ignored);
    const char* const path = ca.c_str();
    const int loaded = ca.empty() ? ::SSL_CTX_set_default_verify_paths(context_.get())
                                  : ::SSL_CTX_load_verify_locations(context_.get(), is_folder ? nullptr : path,
                                                                    is_folder ? path : nullptr);
    if (loaded != 1) refuse("ca", ca);
  }

  void introduce(const std::string& certificate, const std::string& key) {
    // Without one of our own OpenSSL asks the terminal.
    ::SSL_CTX_set_default_passwd_cb(context_.get(), [](char*, int, int, void*) { return -1; });
    if (::SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()) != 1)
      refuse("certificate", certificate);
    if (::SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) != 1) refuse("key", key);
  }

  [[noreturn]] static void refuse(const std::string& option, const std::string& file) {
    throw std::invalid_argument("redlock: TLS: " + option + " '" + file + "': " + openssl_reason());
  }

  // Constant after construction.
  TlsVerify verify_;
  std::string server_name_;
  std::unique_ptr<SSL_CTX, FreeTls> context_;
};

}  // namespace detail

// TLS 1.2 or later, for ClientOptions::transport. Any number of clients may share what it gives. The files are read here,
// once: for certificates that are replaced make another one, and another Client. OpenSSL is told not to clean up at exit,
// since connections may be in use by then; that counts only where the program has not initialised it before.
//
//   redlock::Client client{"rediss://redis.example", {.transport = redlock::tls({.ca = "/etc/redis/ca.pem"})}};
//
// On failure: std::invalid_argument, with the name of the file that OpenSSL does not take, and why.
inline std::shared_ptr<const Transport> tls(const TlsOptions& options = {}) {
  return std::make_shared<const detail::TlsTransport>(options);
}

}  // namespace redlock
