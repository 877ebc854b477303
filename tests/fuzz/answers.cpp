// A server that answers any bytes: the first two choose the request, and whether the connection has been set up by then.
// Each request has an answer at its deadline, whatever came, and is granted or confirmed only where the bytes say so.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <redlock/detail/node.hpp>
#include <stdexcept>
#include <string>

#include "fuzz.hpp"

namespace redlock::fuzz {
namespace {

using namespace detail;
using namespace std::chrono_literals;

struct Nobody final : Background, Bell {
  void chase(Leftover /*leftover*/) noexcept override {}
  void release_answered(std::string_view /*name*/, bool /*was_ours*/) noexcept override {}
  void attend() noexcept override {}
  void moved() noexcept override {}
  void chased() noexcept override {}
  void node_failed(std::string_view /*name*/, const Failure& /*failure*/, bool /*is_news*/) noexcept override {}
  void listen(std::string_view /*name*/, TimePoint /*now*/) noexcept override {}
  void ring(std::string_view /*name*/) noexcept override {}
  void ring_all() noexcept override {}
};

// Listens on a Unix socket in a folder of its own.
class Server {
 public:
  Server() : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    std::string folder = std::filesystem::temp_directory_path() / "redlock-fuzz-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder");
    folder_ = folder;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    const auto* const any =
        reinterpret_cast<const sockaddr*>(&address);  // NOLINT(*-reinterpret-cast): the kernel's way
    if (::bind(listener_, any, sizeof address) != 0 || ::listen(listener_, 16) != 0)
      throw std::runtime_error("no socket");
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    ::close(listener_);
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return folder_ / "socket"; }

  // -1: nobody is there.
  int accept() const { return ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }

 private:
  int listener_;
  std::filesystem::path folder_;
};

Request choose(unsigned kind) {
  static constexpr std::array verbs{Verb::try_acquire, Verb::acquire, Verb::release,   Verb::renew,
                                    Verb::raise,       Verb::look,    Verb::take_back, Verb::downgrade};
  Request request{.verb = verbs[kind % verbs.size()], .name = "name", .token = "token", .ttl = 30s};
  if ((kind & 8U) != 0) request.fence_key = "{name}:fence";
  if ((kind & 16U) != 0) request.client_id = 7;
  if ((kind & 32U) != 0) {
    request.queue_key = "{name}:queue";
    request.place = "place";
  }
  if ((kind & 64U) != 0) request.mode = Mode::reader;
  if ((kind & 128U) != 0) request.replicas = 1;
  return request;
}

constexpr std::string_view greeting =
    "+OK\r\n:7\r\n$65\r\nrun_id:0123456789012345678901234567890123456789\r\nuptime:1\r\n\r\n\r\n\r\n";

// A lock is granted by OK or a number in text, all else is done by 1; where there is nothing to take back, by 0.
bool may_say_yes(const Request& request, std::string_view bytes) {
  const auto is_grant = [](std::string_view text) {
    return text == "OK" || (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos);
  };
  const std::vector<ReplyPtr> all = replies(bytes);
  const std::size_t of_set_up = std::min<std::size_t>(all.size(), 3);
  return std::any_of(all.begin() + static_cast<std::ptrdiff_t>(of_set_up), all.end(), [&](const ReplyPtr& reply) {
    if (request.verb == Verb::look) return !is_nil(*reply);
    if (is_acquisition(request.verb)) return is_text(*reply) && is_grant(text_of(*reply));
    return is_integer(*reply) && (reply->integer == 1 || (reply->integer == 0 && request.verb == Verb::take_back));
  });
}

void answer(int client, std::string_view& bytes, std::size_t piece) {
  const std::string_view now = bytes.substr(0, piece);
  if (::send(client, now.data(), now.size(), MSG_NOSIGNAL) > 0) bytes.remove_prefix(now.size());
  if (bytes.empty()) ::shutdown(client, SHUT_WR);
}

void serve(const Server& server, const Request& request, std::string_view bytes, std::size_t piece) {
  Nobody nobody;
  Node node(Settings(Uri("unix://" + server.path()), ClientOptions{}), 1, nobody, nobody);
  const TimePoint now = BootClock::now();
  Pending pending = node.submit(std::span(&request, 1), Lane::foreground, now + 10s);
  int client = -1;
  std::string_view rest = bytes;
  for (int i = 0; i < 100 && !pending->advance(now); ++i) {
    if (client < 0) client = server.accept();
    if (client >= 0 && !rest.empty()) answer(client, rest, piece);
  }
  expect(pending->advance(now + 10s));
  const Answer& given = pending->answers().front();
  expect(given.kind != Answer::Kind::yes || may_say_yes(request, bytes));
  expect(given.kind != Answer::Kind::failed || !given.failure.what.empty());
  if (client >= 0) ::close(client);
  while ((client = server.accept()) >= 0) ::close(client);
}

}  // namespace
}  // namespace redlock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redlock::fuzz;
  static const Server server;
  if (size < 2) return 0;
  const std::string bytes = (data[1] % 2 == 0 ? std::string(greeting) : "") + std::string(text(data + 2, size - 2));
  serve(server, choose(data[0]), bytes, 1 + data[1] / 2U);
  return 0;
}
