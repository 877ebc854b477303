#include "redlock/tls.hpp"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "support/certificates.hpp"
#include "support/process.hpp"
#include "thrown.hpp"

namespace redlock::tls_test {
namespace {

using testing::Certificates;
using testing::contains;
using testing::thrown;
using Channel = Transport::Channel;

Certificates& certificates() { return Certificates::shared(); }

TlsOptions trusting() { return {.ca = certificates().ca()}; }

// A server in memory.
class Server {
 public:
  explicit Server(const Certificates::Pair& pair) : context_(SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_use_certificate_chain_file(context_.get(), pair.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context_.get(), pair.key.c_str(), SSL_FILETYPE_PEM);
    tls_.reset(SSL_new(context_.get()));
    SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(tls_.get());
  }

  SSL* tls() { return tls_.get(); }
  void ask_for_a_certificate() {
    SSL_CTX_load_verify_locations(context_.get(), certificates().ca().c_str(), nullptr);
    SSL_set_verify(tls(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  void say(std::string_view text) { SSL_write(tls(), text.data(), static_cast<int>(text.size())); }
  std::string heard() {
    std::string text;
    char c = 0;
    while (SSL_read(tls(), &c, 1) == 1) text += c;
    return text;
  }

  // Everything on its way, `size` bytes at a time.
  void exchange(Channel& channel, std::size_t size = 16384) {
    const std::string there = channel.to_network(), back = taken();
    for (std::size_t at = 0; at < there.size(); at += size) {
      const std::string bytes = there.substr(at, size);
      BIO_write(SSL_get_rbio(tls()), bytes.data(), static_cast<int>(bytes.size()));
    }
    for (std::size_t at = 0; at < back.size(); at += size) {
      channel.from_network(std::string_view(back).substr(at, size));
      heard_ += channel.heard();
    }
  }
  // Takes part in the handshake until there is nothing more to say. True: the client may speak.
  bool shake_hands(Channel& channel, std::size_t size = 16384) {
    for (int i = 0; i < 5; ++i) {
      (void)channel.open();
      SSL_do_handshake(tls());
      exchange(channel, size);
    }
    return channel.open();
  }

  std::string client_heard() { return std::exchange(heard_, {}); }
  std::string told_name() {
    const char* name = SSL_get_servername(tls(), TLSEXT_NAMETYPE_host_name);
    return name != nullptr ? name : "";
  }

 private:
  std::string taken() {
    std::string bytes(BIO_ctrl_pending(SSL_get_wbio(tls())), '\0');
    if (!bytes.empty()) BIO_read(SSL_get_wbio(tls()), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }

  std::unique_ptr<SSL_CTX, detail::FreeTls> context_;
  std::unique_ptr<SSL, detail::FreeTls> tls_;
  std::string heard_;
};

Certificates::Pair& localhost() {
  static Certificates::Pair pair = certificates().sign("DNS:localhost");
  return pair;
}

// A connection that is open.
struct Open {
  Server server{localhost()};
  std::unique_ptr<Channel> channel = tls(trusting())->channel("localhost");
  Open() { EXPECT_TRUE(server.shake_hands(*channel)); }

  errc error_of(const auto& call) {
    try {
      call();
    } catch (const ConnectionError& error) {
      said = error.what();
      return static_cast<errc>(error.code().value());
    }
    ADD_FAILURE() << "nothing is thrown";
    return {};
  }
  std::string said;
};

// ---------------------------------------------------------------------------------------------------------------------
// the options

TEST(TlsOptions, have_these_defaults) {
  const TlsOptions options;
  EXPECT_EQ(options.ca + options.certificate + options.key + options.server_name, "");
  EXPECT_EQ(options.verify, TlsVerify::full);
  EXPECT_NO_THROW(tls());
}

std::string refused(const TlsOptions& options) {
  return thrown<std::invalid_argument>([&] { tls(options); });
}

TEST(TlsOptions, name_the_file_that_is_of_no_use_and_why) {
  const auto& [certificate, key] = localhost();
  const std::string none = certificates().file(""), text = certificates().file("no certificate, but a secret\n");
  EXPECT_EQ(refused({.ca = "/no such file"}), "redlock: TLS: ca '/no such file': No such file or directory");
  EXPECT_EQ(refused({.ca = none}), "redlock: TLS: ca '" + none + "': no certificate or crl found");
  EXPECT_EQ(refused({.ca = text}), "redlock: TLS: ca '" + text + "': no certificate or crl found");
  EXPECT_EQ(refused({.ca = text, .verify = TlsVerify::nothing}), refused({.ca = text})) << "it may be wanted later";
  EXPECT_EQ(refused({.certificate = "/no such file", .key = key}),
            "redlock: TLS: certificate '/no such file': No such file or directory");
  EXPECT_EQ(refused({.certificate = text, .key = key}), "redlock: TLS: certificate '" + text + "': no start line");
  EXPECT_EQ(refused({.certificate = certificate, .key = "/no such file"}),
            "redlock: TLS: key '/no such file': No such file or directory");
  const std::string what = refused({.certificate = certificate, .key = text});
  EXPECT_TRUE(what.starts_with("redlock: TLS: key '" + text + "': ")) << what;
  EXPECT_FALSE(contains(what, "secret")) << what;
  EXPECT_NO_THROW(tls({.certificate = certificate, .key = key}));
}

TEST(TlsOptions, take_a_certificate_with_its_own_key_only) {
  const Certificates::Pair other = certificates().sign("DNS:other");
  EXPECT_EQ(refused({.certificate = localhost().certificate, .key = other.key}),
            "redlock: TLS: key '" + other.key + "': key values mismatch");
  const std::string half = "redlock: TLS: of certificate and key one is missing";
  EXPECT_EQ(refused({.certificate = other.certificate}), half);
  EXPECT_EQ(refused({.key = other.key}), half);
}

// A terminal that is asked for a passphrase would hang here.
TEST(TlsOptions, refuse_a_key_with_a_passphrase_and_ask_nobody_for_it) {
  const std::string key = certificates().file("");
  auto process = testing::Process::exec(
      {"openssl", "pkcs8", "-topk8", "-in", localhost().key, "-passout", "pass:secret", "-out", key});
  ASSERT_EQ(process.wait(), (testing::ExitStatus{true, 0, 0}));
  const std::string what = refused({.certificate = localhost().certificate, .key = key});
  EXPECT_TRUE(what.starts_with("redlock: TLS: key '" + key + "': ")) << what;
  EXPECT_FALSE(contains(what, "secret")) << what;
}

// ---------------------------------------------------------------------------------------------------------------------
// whom a certificate is for

// Why the server is refused; empty: it is not.
std::string verdict(const Certificates::Pair& pair, const std::string& host, TlsOptions options = trusting()) {
  Server server(pair);
  try {
    const auto channel = tls(options)->channel(host);
    return server.shake_hands(*channel) ? "" : "nothing comes of it";
  } catch (const ConnectionError& error) {
    EXPECT_EQ(error.code(), errc::connect_failed);
    return detail::plain_text(error);
  }
}

std::string failed(const std::string& why) { return "TLS: certificate verify failed: " + why; }
const std::string other_name = failed("hostname mismatch"), other_address = failed("IP address mismatch");

TEST(TlsName, must_be_the_host_of_the_address) {
  const auto pair = certificates().sign("DNS:redis.example,DNS:*.wild.example,DNS:part*.redis.example");
  EXPECT_EQ(verdict(pair, "redis.example"), "");
  EXPECT_EQ(verdict(pair, "REDIS.example"), "");
  EXPECT_EQ(verdict(pair, "redis.example."), "");
  EXPECT_EQ(verdict(pair, "a.wild.example"), "");
  for (const std::string host : {"localhost", "a.redis.example", "redis.example.net", "wild.example",
                                 "a.b.wild.example", "partial.redis.example", "127.0.0.1", "redis"}) {
    EXPECT_EQ(verdict(pair, host), host == "127.0.0.1" ? other_address : other_name) << host;
  }
}

TEST(TlsName, that_is_an_address_must_be_among_the_addresses_of_the_certificate) {
  const auto pair = certificates().sign("IP:127.0.0.1,IP:fe80::1,DNS:127.0.0.2");
  EXPECT_EQ(verdict(pair, "127.0.0.1"), "");
  EXPECT_EQ(verdict(pair, "fe80::1"), "");
  EXPECT_EQ(verdict(pair, "fe80:0::1"), "");
  EXPECT_EQ(verdict(pair, "fe80::1%eth0"), "");
  EXPECT_EQ(verdict(pair, "127.0.0.2"), other_address) << "a name that looks like an address";
  EXPECT_EQ(verdict(pair, "fe80::2"), other_address);
  EXPECT_EQ(verdict(pair, "localhost"), other_name);
}

TEST(TlsName, is_the_subjects_only_where_the_certificate_has_no_other) {
  EXPECT_EQ(verdict(certificates().sign("", "localhost"), "localhost"), "");
  EXPECT_EQ(verdict(certificates().sign("", "other"), "localhost"), other_name);
  EXPECT_EQ(verdict(certificates().sign("DNS:other", "localhost"), "localhost"), other_name);
  EXPECT_EQ(verdict(certificates().sign("", "127.0.0.1"), "127.0.0.1"), other_address);
}

TEST(TlsName, may_be_another_than_the_host_has) {
  TlsOptions options = trusting();
  options.server_name = "localhost";
  EXPECT_EQ(verdict(localhost(), "127.0.0.1", options), "");
  EXPECT_EQ(verdict(localhost(), "", options), "") << "a Unix socket";
  options.server_name = "other";
  EXPECT_EQ(verdict(localhost(), "localhost", options), other_name);
  options.server_name = std::string("localhost\0.example", 18);
  EXPECT_TRUE(verdict(localhost(), "localhost", options).starts_with("TLS: the server's name is none: "));
  options.server_name = std::string(300, 'a');
  EXPECT_TRUE(verdict(localhost(), "localhost", options).starts_with("TLS: the server's name is none: "));
}

TEST(TlsName, that_is_missing_is_not_the_end_of_checking_it) {
  const std::string no_name = "TLS: the address has no host: set TlsOptions::server_name";
  EXPECT_EQ(verdict(localhost(), ""), no_name);
  EXPECT_EQ(verdict(localhost(), "."), no_name);
}

TEST(TlsVerify, opts_out_of_the_name_or_of_everything) {
  Certificates strangers;
  const auto strange = strangers.sign("DNS:localhost");
  TlsOptions options = trusting();
  EXPECT_EQ(verdict(localhost(), "other", options), other_name);
  EXPECT_EQ(verdict(strange, "localhost", options), failed("unable to get local issuer certificate"));
  options.verify = TlsVerify::certificate;
  for (const std::string host : {"other", "127.0.0.1", "::1", ""}) EXPECT_EQ(verdict(localhost(), host, options), "");
  EXPECT_EQ(verdict(strange, "localhost", options), failed("unable to get local issuer certificate"));
  options.verify = TlsVerify::nothing;
  for (const std::string host : {"other", "127.0.0.1", "::1", ""}) EXPECT_EQ(verdict(strange, host, options), "");
}

TEST(TlsOptions, ca_may_be_a_folder) {
  const testing::TempFolder folder;
  std::filesystem::copy(certificates().ca(), folder.path() / "ca.pem");
  const TlsOptions options{.ca = folder.path().string()};
  EXPECT_NE(verdict(localhost(), "localhost", options), "") << "a file without its hash for a name is not looked at";
  auto process = testing::Process::exec({"openssl", "rehash", folder.path().string()});
  ASSERT_EQ(process.wait(), (testing::ExitStatus{true, 0, 0}));
  EXPECT_EQ(verdict(localhost(), "localhost", options), "");
}

TEST(TlsOptions, without_a_ca_the_systems_are_trusted) {
  EXPECT_NE(verdict(localhost(), "localhost", {}), "");
  ::setenv("SSL_CERT_FILE", certificates().ca().c_str(), 1);
  EXPECT_EQ(verdict(localhost(), "localhost", {}), "");
  ::unsetenv("SSL_CERT_FILE");
}

TEST(TlsOptions, certificate_is_shown_to_a_server_that_asks) {
  const auto ours = certificates().sign("", "we ourselves");
  TlsOptions options = trusting();
  options.certificate = ours.certificate;
  options.key = ours.key;
  Server server(localhost());
  server.ask_for_a_certificate();
  ASSERT_TRUE(server.shake_hands(*tls(options)->channel("localhost")));
  EXPECT_TRUE(SSL_is_init_finished(server.tls()));

  Open open;  // with TLS 1.3 the client has made its peace before the server looks at what it sent
  Server strict(localhost());
  strict.ask_for_a_certificate();
  const auto channel = tls(trusting())->channel("localhost");
  EXPECT_EQ(open.error_of([&] { strict.shake_hands(*channel); }), errc::connect_failed);
  EXPECT_EQ(open.said, "TLS: the server refuses: tlsv13 alert certificate required: cannot connect");
}

// As in /etc/ssl/openssl.cnf, which is read once per process.
TEST(TlsVersion, is_1_2_or_later_whatever_the_system_allows) {
  if (std::getenv("OPENSSL_CONF") == nullptr) {
    const std::string config = certificates().file(
        "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1\n"
        "CipherString = DEFAULT@SECLEVEL=0\n");
    auto process =
        testing::Process::exec({"/proc/self/exe", "--gtest_filter=TlsVersion.*"}, {{"OPENSSL_CONF", config}});
    EXPECT_EQ(process.wait(), (testing::ExitStatus{true, 0, 0})) << process.output();
    return;
  }
  Server old(localhost());
  SSL_set_max_proto_version(old.tls(), TLS1_1_VERSION);
  const auto channel = tls(trusting())->channel("localhost");
  EXPECT_EQ(thrown<ConnectionError>([&] { old.shake_hands(*channel); }),
            "TLS: the server refuses: tlsv1 alert protocol version: cannot connect");
  Server newer(localhost());
  SSL_set_max_proto_version(newer.tls(), TLS1_2_VERSION);
  EXPECT_TRUE(newer.shake_hands(*tls(trusting())->channel("localhost")));
}

TEST(TlsName, is_told_to_the_server_unless_it_is_an_address) {
  const auto told = [](const std::string& host, const std::string& server_name = "") {
    Server server(localhost());
    const auto channel =
        tls({.ca = certificates().ca(), .server_name = server_name, .verify = TlsVerify::nothing})->channel(host);
    EXPECT_TRUE(server.shake_hands(*channel));
    return server.told_name();
  };
  EXPECT_EQ(told("redis.example"), "redis.example");
  EXPECT_EQ(told("redis.example."), "redis.example");
  EXPECT_EQ(told("127.0.0.1"), "");
  EXPECT_EQ(told("::1"), "");
  EXPECT_EQ(told("fe80::1%eth0"), "");
  EXPECT_EQ(told(""), "");
  EXPECT_EQ(told("127.0.0.1", "redis.example"), "redis.example");
  EXPECT_EQ(told("redis.example", "127.0.0.1"), "");
}

// ---------------------------------------------------------------------------------------------------------------------
// the channel

TEST(TlsChannel, carries_bytes_both_ways_in_any_pieces) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{100'000}}) {
    Server server(localhost());
    const auto channel = tls(trusting())->channel("localhost");
    EXPECT_FALSE(channel->open());
    ASSERT_TRUE(server.shake_hands(*channel, size));
    std::string there(200'000, '\0'), back(150'000, '\0');
    for (std::size_t i = 0; i < there.size(); ++i) there[i] = static_cast<char>(i * i % 251);
    for (std::size_t i = 0; i < back.size(); ++i) back[i] = static_cast<char>(i * i % 241);
    channel->say(there);
    channel->say("and more");
    server.say(back);
    server.exchange(*channel, size);
    EXPECT_EQ(server.heard(), there + "and more");
    EXPECT_EQ(server.client_heard(), back);
    EXPECT_EQ(channel->to_network(), "");
    EXPECT_EQ(channel->heard(), "");
  }
}

TEST(TlsChannel, keeps_what_it_carries_to_itself) {
  Open open;
  open.channel->say("redlock's own words");
  EXPECT_FALSE(contains(open.channel->to_network(), "words"));
}

TEST(TlsChannel, bears_what_TLS_says_between_the_lines) {
  Open open;
  for (int i = 0; i < 3; ++i) {
    SSL_new_session_ticket(open.server.tls());
    SSL_key_update(open.server.tls(), SSL_KEY_UPDATE_REQUESTED);
    SSL_do_handshake(open.server.tls());
    open.server.exchange(*open.channel);
    EXPECT_EQ(open.server.client_heard(), "");
    open.channel->say("still here");
    open.server.say("so am I");
    open.server.exchange(*open.channel);
    EXPECT_EQ(open.server.heard(), "still here");
    EXPECT_EQ(open.server.client_heard(), "so am I");
  }
}

TEST(TlsChannel, hears_the_last_words_and_then_the_end) {
  Open open;
  open.server.say("last words");
  SSL_shutdown(open.server.tls());
  open.server.exchange(*open.channel);
  EXPECT_EQ(open.server.client_heard(), "last words");
  EXPECT_EQ(open.error_of([&] { open.channel->heard(); }), errc::connection_lost);
  EXPECT_EQ(open.said, "the server closed the connection: connection lost");
}

TEST(TlsChannel, that_hears_garbage_is_lost) {
  Open open;
  open.server.say("a word");
  open.server.exchange(*open.channel);
  open.channel->from_network("+OK\r\n");
  EXPECT_EQ(open.error_of([&] { open.channel->heard(); }), errc::connection_lost);
  EXPECT_EQ(open.said, "TLS: wrong version number, perhaps what answers does not speak TLS: connection lost");
  EXPECT_EQ(open.error_of([&] { open.channel->heard(); }), errc::connection_lost);
  EXPECT_EQ(open.error_of([&] { open.channel->say("x"); }), errc::connection_lost);
  EXPECT_FALSE(contains(open.said, "(null)") || contains(open.said, ": :")) << open.said;
}

TEST(TlsChannel, whose_bytes_were_tampered_with_is_lost) {
  Open open;
  open.server.say("a word");
  open.server.exchange(*open.channel);
  open.channel->from_network(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x'));
  EXPECT_EQ(open.error_of([&] { open.channel->heard(); }), errc::connection_lost);
  EXPECT_TRUE(open.said.starts_with("TLS: decryption failed or bad record mac")) << open.said;
}

TEST(TlsChannel, of_a_server_that_speaks_no_TLS_cannot_be_made) {
  for (const std::string& answer : {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"),
                                    std::string("-ERR unknown command\r\n"), std::string(64, '\0')}) {
    Open open;
    const auto channel = tls(trusting())->channel("localhost");
    EXPECT_FALSE(channel->open());
    channel->from_network(answer);
    EXPECT_EQ(open.error_of([&] { channel->open(); }), errc::connect_failed);
    EXPECT_TRUE(open.said.starts_with("TLS: wrong version number")) << open.said;
    EXPECT_EQ(open.error_of([&] { channel->open(); }), errc::connect_failed) << "nor later";
    EXPECT_FALSE(contains(open.said, "(null)")) << open.said;
  }
}

// OpenSSL's queue of errors is one for all that a thread does.
TEST(TlsChannel, leaves_no_errors_behind_and_takes_none_for_its_own) {
  Open open;
  const auto stray = [] { ERR_put_error(ERR_LIB_SSL, 0, SSL_R_BAD_LENGTH, nullptr, 0); };
  stray();
  EXPECT_EQ(open.channel->heard(), "");
  stray();
  open.channel->say("a word");
  stray();
  const auto channel = tls(trusting())->channel("localhost");
  stray();
  EXPECT_FALSE(channel->open());
  stray();
  EXPECT_TRUE(contains(refused({.ca = "/no such file"}), "No such file"));
  EXPECT_EQ(ERR_peek_error(), 0U);
  channel->from_network("+OK\r\n");
  EXPECT_EQ(open.error_of([&] { channel->open(); }), errc::connect_failed);
  EXPECT_EQ(ERR_peek_error(), 0U);
  for (const auto& call : {std::function<void()>([&] { (void)channel->open(); }), {[&] { channel->say("a word"); }}}) {
    stray();
    EXPECT_EQ(open.error_of(call), errc::connect_failed);
    EXPECT_FALSE(contains(open.said, "bad length")) << open.said;
    EXPECT_EQ(ERR_peek_error(), 0U);
  }
}

}  // namespace
}  // namespace redlock::tls_test
