#include "control.hpp"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <ostream>
#include <system_error>

#include "net.hpp"

namespace redlock::testing {
namespace {

Value copy_of(const redisReply& reply) {
  switch (reply.type) {
    case REDIS_REPLY_STATUS: return {Value::Type::status, 0, {reply.str, reply.len}, {}};
    case REDIS_REPLY_STRING: return {Value::Type::text, 0, {reply.str, reply.len}, {}};
    case REDIS_REPLY_ERROR: return {Value::Type::error, 0, {reply.str, reply.len}, {}};
    case REDIS_REPLY_INTEGER: return {Value::Type::integer, reply.integer, {}, {}};
    case REDIS_REPLY_ARRAY: break;
    default: return {};
  }
  Value value{Value::Type::array, 0, {}, {}};
  for (std::size_t i = 0; i < reply.elements; ++i) value.elements.push_back(copy_of(*reply.element[i]));
  return value;
}

std::string encoded(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const auto& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Value& value) {
  switch (value.type) {
    case Value::Type::nil: return out << "(nil)";
    case Value::Type::status: return out << value.text;
    case Value::Type::text: return out << '"' << value.text << '"';
    case Value::Type::integer: return out << "(integer) " << value.integer;
    case Value::Type::error: return out << "(error) " << value.text;
    case Value::Type::array: break;
  }
  out << '[';
  for (const auto& element : value.elements) out << ' ' << element;
  return out << " ]";
}

void Control::FreeReader::operator()(redisReader* reader) const noexcept { ::redisReaderFree(reader); }

Control::Control(const std::string& host, std::uint16_t port) try : Control{begin_connect(host, port)} {
} catch (const std::system_error& error) {
  throw ControlError{error.what()};
}

Control::Control(const std::string& socket_path) try : Control{begin_connect(socket_path)} {
} catch (const std::system_error& error) {
  throw ControlError{error.what()};
}

Control::Control(Fd fd) : fd_{std::move(fd)}, reader_{::redisReaderCreate()} {
  int error = 0;
  socklen_t size = sizeof error;
  if (!wait_ready(fd_.get(), POLLOUT, std::chrono::steady_clock::now() + limit_))
    throw ControlTimeout{"connect: timeout"};
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) throw ControlError{"connect: " + std::generic_category().message(error)};
  address_ = local_address(fd_.get());
}

Value Control::command(const std::vector<std::string>& words) {
  send(words);
  return receive();
}

void Control::send(const std::vector<std::string>& words) try {
  send_all(fd_.get(), encoded(words), std::chrono::steady_clock::now() + limit_);
} catch (const std::system_error& error) {
  throw ControlError{error.what()};
}

Value Control::receive() {
  const auto deadline = std::chrono::steady_clock::now() + limit_;
  for (;;) {
    void* parsed = nullptr;
    if (::redisReaderGetReply(reader_.get(), &parsed) != REDIS_OK) throw ControlError{reader_->errstr};
    if (parsed != nullptr) {
      const std::unique_ptr<void, void (*)(void*)> reply{parsed, ::freeReplyObject};
      return copy_of(*static_cast<redisReply*>(parsed));
    }
    read_more(deadline);
  }
}

void Control::read_more(Deadline deadline) {
  std::array<char, 16384> buffer{};
  for (;;) {
    const auto count = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
      ::redisReaderFeed(reader_.get(), buffer.data(), static_cast<std::size_t>(count));
      return;
    }
    if (count == 0) throw ControlError{"the server closed the connection"};
    if (errno != EAGAIN && errno != EINTR) throw ControlError{std::generic_category().message(errno)};
    if (!wait_ready(fd_.get(), POLLIN, deadline)) throw ControlTimeout{"no reply: timeout"};
  }
}

void Control::shut_down() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace redlock::testing
