#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace redlock {

// What went wrong, as a number. Each value equals a std::errc condition, so that `e.code() == std::errc::timed_out`
// works, also between shared objects that were built with hidden visibility.
enum class errc {
  connect_failed = 1,  // no connection could be made: refused, unreachable, unknown host
  connection_lost,     // the connection broke before the answer
  timed_out,           // no answer in time
  protocol_error,      // the answer was not what Redis answers
  unauthenticated,     // NOAUTH, WRONGPASS: the credentials are missing or wrong
  no_permission,       // NOPERM: the ACL forbids the command or the key
  wrong_type,          // WRONGTYPE: the key holds something that is not a lock
  out_of_memory,       // OOM: maxmemory is reached
  misconfigured,       // MISCONF: the server refuses writes after a failed snapshot
  no_replicas,         // NOREPLICAS: min-replicas-to-write is not met
  read_only,           // READONLY: the server is a replica
  loading,             // LOADING: the server is reading its data set
  master_down,         // MASTERDOWN: a replica without its master
  cluster_down,        // CLUSTERDOWN: the slot is served by nobody
  try_again,           // TRYAGAIN, or the server has no room for another client
  busy,                // BUSY: a script runs for too long
  server_error,        // any other error answer
  lease_lost,          // the lease ran out, or somebody took the lock
  restarted,           // the node of a quorum restarted a short while ago, and may have forgotten locks
  redirected,          // MOVED, ASK: the key is at another node; the address of a cluster is redis+cluster://
};

// All values are smaller.
inline constexpr std::size_t errc_end = static_cast<std::size_t>(errc::redirected) + 1;

}  // namespace redlock

template <>
struct std::is_error_code_enum<redlock::errc> : std::true_type {};

namespace redlock {

namespace detail {

class __attribute__((visibility("default"))) ErrorCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "redlock"; }

  std::string message(int value) const override {
    switch (static_cast<errc>(value)) {
      case errc::connect_failed: return "cannot connect";
      case errc::connection_lost: return "connection lost";
      case errc::timed_out: return "timed out";
      case errc::protocol_error: return "not a Redis answer";
      case errc::unauthenticated: return "not authenticated";
      case errc::no_permission: return "no permission";
      case errc::wrong_type: return "the key is not a lock";
      case errc::out_of_memory: return "the server is out of memory";
      case errc::misconfigured: return "the server refuses writes after a failed snapshot";
      case errc::no_replicas: return "the server has too few replicas";
      case errc::read_only: return "the server is a read-only replica";
      case errc::loading: return "the server is loading its data";
      case errc::master_down: return "the replica has lost its master";
      case errc::cluster_down: return "the cluster is down";
      case errc::try_again: return "the server asks to try again";
      case errc::busy: return "the server is busy running a script";
      case errc::redirected: return "the key is at another node of a cluster";
      case errc::restarted: return "the server restarted a short while ago";
      case errc::server_error: return "the server answered an error";
      case errc::lease_lost: return "the lock was lost";
    }
    return "unknown error";
  }

  std::error_condition default_error_condition(int value) const noexcept override {
    return make_error_condition(condition(value));
  }

 private:
  static std::errc condition(int value) noexcept {
    switch (static_cast<errc>(value)) {
      case errc::connect_failed: return std::errc::connection_refused;
      case errc::connection_lost: return std::errc::connection_reset;
      case errc::timed_out: return std::errc::timed_out;
      case errc::protocol_error: return std::errc::protocol_error;
      case errc::unauthenticated:
      case errc::no_permission: return std::errc::permission_denied;
      case errc::wrong_type: return std::errc::invalid_argument;
      case errc::out_of_memory: return std::errc::not_enough_memory;
      case errc::read_only: return std::errc::read_only_file_system;
      case errc::no_replicas:
      case errc::loading:
      case errc::master_down:
      case errc::cluster_down:
      case errc::try_again:
      case errc::restarted:
      case errc::busy: return std::errc::resource_unavailable_try_again;
      case errc::lease_lost: return std::errc::no_lock_available;
      case errc::misconfigured:
      case errc::redirected:
      case errc::server_error: break;
    }
    return std::errc::io_error;
  }
};

}  // namespace detail

// Never destroyed: background threads may still name an error while static objects are torn down.
[[gnu::visibility("default")]] inline const std::error_category& error_category() noexcept {
  static const std::error_category& category = *new detail::ErrorCategory;  // NOLINT(*-exception-at-new): 8 bytes
  return category;
}

inline std::error_code make_error_code(errc value) noexcept { return {static_cast<int>(value), error_category()}; }

// Everything that this library throws, except std::invalid_argument for bad input and plain std::system_error for
// misuse of a lock object. Copying one never throws.
class __attribute__((visibility("default"))) Error : public std::system_error {
 public:
  Error(errc code, const std::string& what) : std::system_error(make_error_code(code), what) {}
};

// Redis could not be reached, or did not answer in time, or not in its protocol.
class __attribute__((visibility("default"))) ConnectionError : public Error {
 public:
  using Error::Error;
};

// Redis answered an error. what() has its own words.
class __attribute__((visibility("default"))) ServerError : public Error {
 public:
  using Error::Error;
};

// A lock that was held is held no more, though nobody unlocked it.
class __attribute__((visibility("default"))) LeaseLost : public Error {
 public:
  enum class Reason {
    expired,  // it could not be renewed in time: the local deadline passed
    taken,    // Redis says that the key is gone or holds another token
  };

  LeaseLost(std::string_view name, Reason reason)
      : Error(errc::lease_lost,
              std::string(name) + (reason == Reason::expired ? ": the lease ran out before it was renewed"
                                                             : ": the key is gone or somebody else's")),
        name_(std::make_shared<const std::string>(name)),
        reason_(reason) {}

  std::string_view name() const noexcept { return *name_; }
  Reason reason() const noexcept { return reason_; }

 private:
  std::shared_ptr<const std::string> name_;  // shared, so that copying cannot throw
  Reason reason_;
};

namespace detail {

// The first word of an error answer tells its kind:
// https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
inline errc error_kind(std::string_view answer) noexcept {
  constexpr std::pair<std::string_view, errc> kinds[] = {
      {"NOAUTH", errc::unauthenticated},
      {"WRONGPASS", errc::unauthenticated},
      {"NOPERM", errc::no_permission},
      {"WRONGTYPE", errc::wrong_type},
      {"OOM", errc::out_of_memory},
      {"MISCONF", errc::misconfigured},
      {"NOREPLICAS", errc::no_replicas},
      {"READONLY", errc::read_only},
      {"LOADING", errc::loading},
      {"MASTERDOWN", errc::master_down},
      {"CLUSTERDOWN", errc::cluster_down},
      {"TRYAGAIN", errc::try_again},
      {"BUSY", errc::busy},
      {"MOVED", errc::redirected},
      {"ASK", errc::redirected},
  };
  const std::string_view word = answer.substr(0, answer.find(' '));
  for (const auto& [text, kind] : kinds) {
    if (word == text) return kind;
  }
  // The server accepts the connection first and refuses the client after:
  // https://redis.io/docs/latest/develop/reference/clients/
  if (answer.starts_with("ERR max number of clients")) return errc::try_again;
  // A script in a slot that is moved elsewhere at the moment; servers differ in the words before these.
  if (answer.find("access a non local key") != std::string_view::npos) return errc::try_again;
  return errc::server_error;
}

// Whether the same command may succeed a moment later, without anybody changing a setting.
constexpr bool is_transient(errc code) noexcept {
  switch (code) {
    case errc::connect_failed:
    case errc::connection_lost:
    case errc::timed_out:
    case errc::protocol_error:
    case errc::read_only:
    case errc::loading:
    case errc::master_down:
    case errc::cluster_down:
    case errc::try_again:
    case errc::restarted:
    case errc::busy: return true;
    default: return false;
  }
}

// What was said when the error was made, without the text of its code, which every std::system_error adds.
inline std::string plain_text(const Error& error) {
  std::string text = error.what();
  const std::string suffix = ": " + error.code().message();
  if (text.ends_with(suffix)) text.resize(text.size() - suffix.size());
  return text;
}

constexpr bool is_connection_error(errc code) noexcept { return code <= errc::protocol_error; }

}  // namespace detail
}  // namespace redlock
