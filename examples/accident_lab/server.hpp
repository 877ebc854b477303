#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <redlock/connection.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/process.hpp"

struct NoServer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A redis-server on a free port of this machine, in a folder of its own, without persistence. It ends with the object, and
// with this process.
class Server {
 public:
  explicit Server(const std::filesystem::path& folder) {
    for (int tries = 0; tries < 20; ++tries) {  // somebody else may take the port first
      port_ = free_port();
      process_.emplace([&] { return run(folder, std::to_string(port_)); });
      if (answers()) return;
      if (process_->wait() == not_found) break;
    }
    throw NoServer("redis-server does not start: is it installed?");
  }

  redlock::Uri uri() const { return redlock::Uri("redis://127.0.0.1:" + std::to_string(port_)); }
  std::string port() const { return std::to_string(port_); }
  redlock::Connection connect() const { return redlock::Connection{uri()}; }

  void kill() { process_.reset(); }
  void stop() const { process_->signal(SIGSTOP); }
  void go_on() const { process_->signal(SIGCONT); }

 private:
  static constexpr int not_found = 127;

  static std::uint16_t free_port() {
    const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    const bool found = ::bind(file, any, length) == 0 && ::getsockname(file, any, &length) == 0;
    ::close(file);
    if (!found) throw NoServer("no free port");
    return ::ntohs(address.sin_port);
  }

  static int run(const std::filesystem::path& folder, const std::string& port) {
    const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nowhere, STDOUT_FILENO);
    ::execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port.c_str(), "--dir", folder.c_str(),
             "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", static_cast<char*>(nullptr));
    return not_found;
  }

  // And is the one that was started.
  bool answers() {
    const std::string id = "process_id:" + std::to_string(process_->id()) + "\r";
    for (int tries = 0; tries < 500 && process_->is_running(); ++tries) {
      try {
        if (connect().command("INFO", "server").as_string().find(id) != std::string_view::npos) return true;
      } catch (const redlock::Error&) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    process_->signal(SIGKILL);
    return false;
  }

  std::uint16_t port_ = 0;
  std::optional<Process> process_;
};
