#include "fake_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <list>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "net.hpp"
#include "poll_thread.hpp"

namespace redlock::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// One connection.
struct Guest {
  Fd fd;
  std::size_t number = 0;
  std::string input, output;
  Clock::time_point next_byte{};  // when dripping
  bool greeted = false;           // in raw mode: it got its bytes
  bool closing = false;           // once the output is written
  bool gone = false;
};

/// Takes a line off `bytes` at `at`; nullopt if it is not complete.
std::optional<std::string_view> take_line(std::string_view bytes, std::size_t& at) {
  const auto end = bytes.find("\r\n", at);
  if (end == std::string_view::npos) return std::nullopt;
  const auto line = bytes.substr(at, end - at);
  at = end + 2;
  return line;
}

std::size_t number_after_sign(std::string_view line) {
  std::size_t number = 0;
  std::from_chars(line.data() + std::min<std::size_t>(1, line.size()), line.data() + line.size(), number);
  return number;
}

/// Takes a whole command off the front of `input`; nullopt if it is not complete.
std::optional<FakeServer::Words> take_command(std::string& input) {
  const std::string_view bytes = input;
  std::size_t at = 0;
  const auto head = take_line(bytes, at);
  if (!head) return std::nullopt;
  FakeServer::Words words;
  if (head->starts_with('*')) {
    for (auto left = number_after_sign(*head); left > 0; --left) {
      const auto size_line = take_line(bytes, at);
      if (!size_line) return std::nullopt;
      const auto size = number_after_sign(*size_line);
      if (bytes.size() - at < size + 2) return std::nullopt;
      words.emplace_back(bytes.substr(at, size));
      at += size + 2;
    }
  } else {
    std::istringstream in{std::string{*head}};
    for (std::string word; in >> word;) words.push_back(word);
  }
  input.erase(0, at);
  return words;
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

const std::string info =
    "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nprocess_id:1\r\n"
    "run_id:0123456789abcdef0123456789abcdef01234567\r\ntcp_port:6379\r\nuptime_in_seconds:86400\r\nuptime_in_days:"
    "1\r\n"
    "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

std::string answer_to_client(const FakeServer::Words& words) {
  const auto subcommand = words.size() > 1 ? in_capitals(words[1]) : std::string{};
  if (subcommand == "ID") return ":7\r\n";
  if (subcommand == "KILL") return ":0\r\n";
  if (subcommand == "GETNAME" || subcommand == "LIST" || subcommand == "INFO") return FakeServer::bulk("");
  return "+OK\r\n";
}

std::string answer_to_subscribe(const FakeServer::Words& words) {
  std::string answer;
  for (std::size_t i = 1; i < words.size(); ++i) {
    answer += "*3\r\n" + FakeServer::bulk("subscribe") + FakeServer::bulk(words[i]) + ":" + std::to_string(i) + "\r\n";
  }
  return answer;
}

}  // namespace

/// All of it belongs to the thread once that runs.
class FakeServer::Desk final : public PollThread::Service {
 public:
  Desk(Answer answer, std::string greeting)
      : answer_{std::move(answer)}, greeting_{std::move(greeting)}, listener_{listen_on()} {
    thread_.emplace(*this);
  }
  ~Desk() override { thread_.reset(); }

  [[nodiscard]] std::uint16_t port() const noexcept { return listener_.port; }
  void call(const std::function<void()>& task) { thread_->call(task); }

  void settle() override;
  void prepare(std::vector<pollfd>& fds, PollThread::TimePoint& wake_at) override;
  void handle(std::span<const pollfd> fds) override;
  void accept_all();
  void say(Guest& guest, std::string bytes);

  std::list<Guest> guests;
  std::vector<Received> received;
  std::size_t accepted = 0;
  std::chrono::milliseconds pace{0};

 private:
  void receive(Guest& guest);
  void answer(Guest& guest);
  void write(Guest& guest) const;

  const Answer answer_;  // empty: raw mode
  const std::string greeting_;
  const Listener listener_;
  std::optional<PollThread> thread_;
};

void FakeServer::Desk::accept_all() {
  for (;;) {
    Fd fd{::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!fd) return;
    Guest& guest = guests.emplace_back();
    guest.fd = std::move(fd);
    guest.number = accepted++;
  }
}

void FakeServer::Desk::settle() {
  for (Guest& guest : guests) write(guest);
  guests.remove_if([](const Guest& guest) { return guest.gone; });
}

void FakeServer::Desk::prepare(std::vector<pollfd>& fds, PollThread::TimePoint& wake_at) {
  fds.push_back({listener_.fd.get(), POLLIN, 0});
  for (const Guest& guest : guests) {
    const bool dripping = !guest.output.empty() && guest.next_byte > Clock::now();
    if (dripping) wake_at = std::min(wake_at, guest.next_byte);
    const auto events = static_cast<short>(POLLIN | (guest.output.empty() || dripping ? 0 : POLLOUT));
    fds.push_back({guest.fd.get(), events, 0});
  }
}

void FakeServer::Desk::handle(std::span<const pollfd> fds) {
  auto guest = guests.begin();
  for (const auto& entry : fds.subspan(1)) {
    if (entry.revents != 0) receive(*guest);
    ++guest;
  }
  accept_all();
}

void FakeServer::Desk::receive(Guest& guest) {
  std::array<char, 16384> buffer{};
  const auto count = ::recv(guest.fd.get(), buffer.data(), buffer.size(), 0);
  if (count > 0) {
    guest.input.append(buffer.data(), static_cast<std::size_t>(count));
    answer(guest);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    guest.gone = true;
  }
}

void FakeServer::Desk::answer(Guest& guest) {
  if (!answer_) {
    received.push_back({guest.number, {std::exchange(guest.input, {})}});
    if (!std::exchange(guest.greeted, true)) say(guest, greeting_);
    return;
  }
  while (!guest.closing) {
    const auto words = take_command(guest.input);
    if (!words) return;
    if (words->empty()) continue;
    received.push_back({guest.number, *words});
    say(guest, answer_(*words));
  }
}

void FakeServer::Desk::say(Guest& guest, std::string bytes) {
  if (bytes.ends_with(close_connection)) {
    guest.closing = true;
    bytes.resize(bytes.size() - close_connection.size());
  }
  guest.output += bytes;
}

void FakeServer::Desk::write(Guest& guest) const {
  const bool dripping = pace.count() > 0;
  while (!guest.output.empty() && !guest.gone && (!dripping || guest.next_byte <= Clock::now())) {
    const auto sent = ::send(guest.fd.get(), guest.output.data(), dripping ? 1 : guest.output.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      guest.gone = errno != EAGAIN && errno != EINTR;
      return;
    }
    guest.output.erase(0, static_cast<std::size_t>(sent));
    guest.next_byte = Clock::now() + pace;
  }
  if (!guest.closing || !guest.output.empty() || guest.gone) return;
  ::shutdown(guest.fd.get(), SHUT_RDWR);  // reaches the peer even while a forked child holds a copy
  guest.gone = true;
}

FakeServer::FakeServer(std::unique_ptr<Desk> desk) : desk_{std::move(desk)}, port_{desk_->port()} {}
FakeServer::FakeServer(Answer answer) : FakeServer{std::make_unique<Desk>(std::move(answer), std::string{})} {}
FakeServer::~FakeServer() = default;

FakeServer FakeServer::raw(std::string bytes) { return FakeServer{std::make_unique<Desk>(Answer{}, std::move(bytes))}; }
FakeServer FakeServer::silent() {
  return FakeServer{[](const Words&) { return std::string{}; }};
}

std::string FakeServer::bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

std::string FakeServer::typical(const Words& words) {
  static const std::string ok = "+OK\r\n", nil = "$-1\r\n", zero = ":0\r\n", one = ":1\r\n";
  static const std::map<std::string, std::string> fixed{
      {"SET", ok},
      {"AUTH", ok},
      {"SELECT", ok},
      {"GET", nil},
      {"PTTL", ":-2\r\n"},
      {"EXISTS", zero},
      {"DEL", zero},
      {"PEXPIRE", zero},
      {"PUBLISH", zero},
      {"WAIT", zero},
      {"EVAL", one},
      {"READONLY", ok},
      {"PING", "+PONG\r\n"},
      {"INFO", bulk(info)},
      {"TIME", "*2\r\n" + bulk("1700000000") + bulk("0")},
      {"QUIT", ok + close_connection},
      {"ROLE", "*3\r\n" + bulk("master") + ":0\r\n*0\r\n"},
      {"EVALSHA", "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
  };
  const auto name = in_capitals(words.front());
  if (name == "CLIENT") return answer_to_client(words);
  if (name == "SUBSCRIBE") return answer_to_subscribe(words);
  if (name == "ECHO" && words.size() == 2) return bulk(words[1]);
  const auto found = fixed.find(name);
  return found != fixed.end() ? found->second : "-ERR unknown command '" + words.front() + "'\r\n";
}

void FakeServer::drip(std::chrono::milliseconds pace) {
  desk_->call([&] { desk_->pace = pace; });
}

void FakeServer::push(const std::string& bytes) {
  desk_->call([&] {
    desk_->accept_all();
    for (Guest& guest : desk_->guests) desk_->say(guest, bytes);
  });
}

std::string FakeServer::uri() const { return "redis://127.0.0.1:" + std::to_string(port_); }

std::vector<FakeServer::Received> FakeServer::received() const {
  std::vector<Received> copy;
  desk_->call([&] { copy = desk_->received; });
  return copy;
}

std::size_t FakeServer::connections() const {
  std::size_t result = 0;
  desk_->call([&] {
    desk_->accept_all();
    result = desk_->guests.size();
  });
  return result;
}

std::size_t FakeServer::accepted() const {
  std::size_t result = 0;
  desk_->call([&] {
    desk_->accept_all();
    result = desk_->accepted;
  });
  return result;
}

}  // namespace redlock::testing
