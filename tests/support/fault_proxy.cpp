#include "fault_proxy.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "net.hpp"
#include "poll_thread.hpp"
#include "redis_server.hpp"

namespace redlock::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// Something on its way from one side to the other.
struct Chunk {
  enum class Kind { data, fin, rst };
  Kind kind;
  Clock::time_point arrived;
  std::string bytes;
};

/// One end of a proxied connection, and what came from it.
struct Side {
  Fd fd;
  bool reading = true;    // neither FIN nor an error came
  bool finished = false;  // a FIN was sent to it
  std::deque<Chunk> queue;

  void arrived(Chunk::Kind kind, std::string bytes = {}) { queue.push_back({kind, Clock::now(), std::move(bytes)}); }
  void broken() {
    reading = false;
    if (queue.empty() || queue.back().kind != Chunk::Kind::rst) arrived(Chunk::Kind::rst);
  }
};

constexpr std::size_t client_side = 0, server_side = 1;

struct Link {
  std::array<Side, 2> sides;
  bool doomed = false;  // to be reset at the end of the round
};

/// The state of the network in one direction; numbered by the side that it comes from.
struct Lane {
  std::chrono::milliseconds delay{0};
  bool hold = false;
  bool swallow = false;
  std::optional<std::size_t> cut;
  std::size_t forwarded = 0;
};

std::vector<std::size_t> lanes_of(Direction direction) {
  switch (direction) {
    case Direction::to_server: return {client_side};
    case Direction::to_client: return {server_side};
    case Direction::both: break;
  }
  return {client_side, server_side};
}

}  // namespace

/// All of it belongs to the thread once that runs.
class FaultProxy::Relay final : public PollThread::Service {
 public:
  Relay(std::string host, std::uint16_t port) : target_host_{std::move(host)}, target_port_{port} {}
  ~Relay() override { thread_.reset(); }

  std::uint16_t start() {
    listener_ = listen_on();
    thread_.emplace(*this);
    return listener_.port;
  }
  void call(const std::function<void()>& task) { thread_->call(task); }

  void settle() override;
  void prepare(std::vector<pollfd>& fds, PollThread::TimePoint& wake_at) override;
  void handle(std::span<const pollfd> fds) override;

  void accept_all();
  void refuse(bool on);

  std::list<Link> links;
  std::array<Lane, 2> lanes;
  std::shared_ptr<Hook> hook;  // shared: it may replace itself while it runs
  std::size_t accepted = 0;

 private:
  void receive(Link& link, std::size_t from);
  void take(Link& link, std::size_t from, std::string_view bytes);
  void flush(Link& link, std::size_t from);
  bool forward(Link& link, std::size_t from, Chunk& chunk);
  [[nodiscard]] bool due(const Lane& lane, const Chunk& chunk) const;

  const std::string target_host_;
  const std::uint16_t target_port_;
  Listener listener_;
  std::optional<PollThread> thread_;
};

void FaultProxy::Relay::accept_all() {
  while (listener_.fd) {
    Fd accepted_fd{::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!accepted_fd) return;
    const int on = 1;
    ::setsockopt(accepted_fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++accepted;
    Link& link = links.emplace_back();
    link.sides[client_side].fd = std::move(accepted_fd);
    try {
      link.sides[server_side].fd = begin_connect(target_host_, target_port_);
    } catch (const std::system_error&) {
      link.sides[server_side].broken();  // no route or no socket: for the client the same as a server that resets
    }
  }
}

void FaultProxy::Relay::refuse(bool on) {
  if (on == !listener_.fd) return;
  if (!on) {
    listener_ = listen_on(listener_.port);
    return;
  }
  accept_all();
  ::shutdown(listener_.fd.get(), SHUT_RDWR);  // a forked child may hold a copy, which would go on listening
  listener_.fd = Fd{};
}

void FaultProxy::Relay::settle() {
  for (Link& link : links) {
    for (const auto from : {client_side, server_side}) flush(link, from);
    if (!link.doomed) continue;
    for (const Side& side : link.sides) reset_connection(side.fd.get());
  }
  links.remove_if([](const Link& link) {
    return link.doomed || (link.sides[client_side].finished && link.sides[server_side].finished);
  });
}

void FaultProxy::Relay::prepare(std::vector<pollfd>& fds, PollThread::TimePoint& wake_at) {
  fds.push_back({listener_.fd.get(), POLLIN, 0});
  for (Link& link : links) {
    for (const auto at : {client_side, server_side}) {
      const Side& side = link.sides[at];
      const auto& incoming = link.sides[1 - at].queue;
      const Lane& lane = lanes[1 - at];
      const bool waiting = !incoming.empty() && !lane.hold && !lane.swallow;
      const bool blocked = waiting && due(lane, incoming.front());
      if (waiting && !blocked) wake_at = std::min(wake_at, incoming.front().arrived + lane.delay);
      const auto events = static_cast<short>((side.reading ? POLLIN : 0) | (blocked ? POLLOUT : 0));
      // Without events wanted, poll would still report a hang-up, again and again.
      fds.push_back({events != 0 ? side.fd.get() : -1, events, 0});
    }
  }
}

void FaultProxy::Relay::handle(std::span<const pollfd> fds) {
  auto link = links.begin();
  for (std::size_t i = 1; i + 1 < fds.size(); i += 2, ++link) {
    if (fds[i].revents != 0) receive(*link, client_side);
    if (fds[i + 1].revents != 0) receive(*link, server_side);
  }
  accept_all();
}

void FaultProxy::Relay::receive(Link& link, std::size_t from) {
  Side& side = link.sides[from];
  if (!side.reading || link.doomed) return;
  std::array<char, 16384> buffer{};
  const auto count = ::recv(side.fd.get(), buffer.data(), buffer.size(), 0);
  if (count > 0) {
    take(link, from, {buffer.data(), static_cast<std::size_t>(count)});
  } else if (count == 0) {
    side.reading = false;
    side.arrived(Chunk::Kind::fin);
  } else if (errno != EAGAIN && errno != EINTR) {
    side.broken();
  }
}

void FaultProxy::Relay::take(Link& link, std::size_t from, std::string_view bytes) {
  const auto current = hook;
  const auto direction = from == client_side ? Direction::to_server : Direction::to_client;
  const auto action = current ? (*current)(direction, bytes) : Action::pass;
  if (action == Action::reset) link.doomed = true;
  if (action == Action::pass && !lanes[from].swallow) link.sides[from].arrived(Chunk::Kind::data, std::string{bytes});
}

bool FaultProxy::Relay::due(const Lane& lane, const Chunk& chunk) const {
  return !lane.hold && !lane.swallow && chunk.arrived + lane.delay <= Clock::now();
}

void FaultProxy::Relay::flush(Link& link, std::size_t from) {
  auto& queue = link.sides[from].queue;
  Side& target = link.sides[1 - from];
  while (!link.doomed && !queue.empty() && due(lanes[from], queue.front())) {
    Chunk& chunk = queue.front();
    if (chunk.kind == Chunk::Kind::rst) {
      link.doomed = true;
    } else if (chunk.kind == Chunk::Kind::fin) {
      ::shutdown(target.fd.get(), SHUT_WR);
      target.finished = true;
    } else if (!forward(link, from, chunk)) {
      return;
    }
    queue.pop_front();
  }
}

/// False if bytes are left that the target does not take yet.
bool FaultProxy::Relay::forward(Link& link, std::size_t from, Chunk& chunk) {
  Lane& lane = lanes[from];
  Side& target = link.sides[1 - from];
  const auto size = std::min(chunk.bytes.size(), lane.cut.value_or(chunk.bytes.size()));
  const auto sent = size == 0 ? 0 : ::send(target.fd.get(), chunk.bytes.data(), size, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    target.broken();
    return true;
  }
  lane.forwarded += static_cast<std::size_t>(sent);
  if (lane.cut) *lane.cut -= static_cast<std::size_t>(sent);
  if (lane.cut == 0U) {
    lane.cut.reset();
    link.doomed = true;
  }
  chunk.bytes.erase(0, static_cast<std::size_t>(sent));
  return chunk.bytes.empty();
}

FaultProxy::FaultProxy(std::string host, std::uint16_t port) : relay_{std::make_unique<Relay>(std::move(host), port)} {
  port_ = relay_->start();
}

FaultProxy::FaultProxy(const RedisServer& server) : FaultProxy{server.host(), server.port()} {}

FaultProxy::~FaultProxy() {
  refuse(true);
  reset_all();
}

std::string FaultProxy::uri() const { return "redis://" + host_ + ":" + std::to_string(port_); }

void FaultProxy::pass() {
  relay_->call([this] {
    for (Lane& lane : relay_->lanes) {
      const auto forwarded = lane.forwarded;
      lane = Lane{};
      lane.forwarded = forwarded;
    }
    relay_->hook.reset();
  });
}

void FaultProxy::delay(Milliseconds to_server, Milliseconds to_client) {
  relay_->call([&] {
    for (Lane& lane : relay_->lanes) lane.hold = lane.swallow = false;
    relay_->lanes[client_side].delay = to_server;
    relay_->lanes[server_side].delay = to_client;
  });
}

void FaultProxy::swallow(Direction direction) {
  relay_->call([&] {
    for (const auto from : lanes_of(direction)) {
      relay_->lanes[from].swallow = true;
      for (Link& link : relay_->links) {
        std::erase_if(link.sides[from].queue, [](const Chunk& chunk) { return chunk.kind == Chunk::Kind::data; });
      }
    }
  });
}

void FaultProxy::hold(Direction direction) {
  relay_->call([&] {
    for (const auto from : lanes_of(direction)) {
      relay_->lanes[from].hold = true;
      relay_->lanes[from].swallow = false;
    }
  });
}

void FaultProxy::cut_after(Direction direction, std::size_t bytes) {
  relay_->call([&] {
    for (const auto from : lanes_of(direction)) relay_->lanes[from].cut = bytes;
  });
}

void FaultProxy::reset_all() {
  relay_->call([this] {
    relay_->accept_all();
    for (Link& link : relay_->links) link.doomed = true;
  });
}

void FaultProxy::refuse(bool on) {
  relay_->call([&] { relay_->refuse(on); });
}

void FaultProxy::set_hook(Hook hook) {
  auto shared = hook ? std::make_shared<Hook>(std::move(hook)) : nullptr;
  relay_->call([&] { relay_->hook = std::move(shared); });
}

std::size_t FaultProxy::connections() const {
  std::size_t result = 0;
  relay_->call([&] {
    relay_->accept_all();
    result = relay_->links.size();
  });
  return result;
}

std::size_t FaultProxy::accepted() const {
  std::size_t result = 0;
  relay_->call([&] {
    relay_->accept_all();
    result = relay_->accepted;
  });
  return result;
}

std::size_t FaultProxy::bytes(Direction direction) const {
  std::size_t result = 0;
  relay_->call([&] {
    for (const auto from : lanes_of(direction)) result += relay_->lanes[from].forwarded;
  });
  return result;
}

}  // namespace redlock::testing
