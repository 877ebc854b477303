#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace redlock {

// What lies between the bytes on a connection and Redis's protocol: TLS (tls.hpp).
//
// Thread safety: all members.
class Transport {
 public:
  // One connection's: translates what is said into what the network carries, and back. It has no socket, so nothing in
  // it waits.
  //
  // Thread safety: one thread at a time.
  // On failure: ConnectionError; the channel is of no use then, but for what to_network() may have left to tell the server.
  class Channel {
   public:
    Channel() = default;
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    virtual ~Channel() = default;

    // Begins, or goes on, to come to terms with the server. True: it may carry commands.
    virtual bool open() = 0;

    virtual void say(std::string_view text) = 0;  // something to send, once it is open
    virtual std::string to_network() = 0;         // what has to go out
    virtual void from_network(std::string_view bytes) = 0;
    virtual std::string heard() = 0;  // what the server said
  };

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // `host`: whom the connection is to, as its address says; empty for a Unix socket.
  virtual std::unique_ptr<Channel> channel(const std::string& host) const = 0;
};

}  // namespace redlock
