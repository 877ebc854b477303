#include "redlock/uri.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "check.hpp"

// An address: any text is refused, or is a Uri that can be written again and prints no password.
namespace redlock::fuzz {
namespace {

constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";

bool is_plain(const std::string& part) { return part.find_first_not_of(plain) == std::string::npos; }

std::string encoded(std::string_view part) {
  std::string text;
  for (const char c : part) {
    char escape[] = "%00";
    std::snprintf(static_cast<char*>(escape), sizeof escape, "%%%02X", static_cast<unsigned char>(c));
    text += plain.find(c) != std::string_view::npos ? std::string(1, c) : static_cast<const char*>(escape);
  }
  return text;
}

std::string address(const Uri& uri, const std::string& password) {
  std::string text = uri.is_unix() ? "unix" : uri.is_tls() ? "rediss" : "redis";
  text += uri.is_sentinel() ? "+sentinel://" : uri.is_cluster() ? "+cluster://" : "://";
  if (!password.empty()) text += encoded(uri.user()) + ":" + encoded(password) + "@";
  std::string comma;
  for (const HostPort& each : uri.hosts()) {
    text += comma + encoded(each.host) + ":" + std::to_string(each.port);
    comma = ",";
  }
  if (uri.is_sentinel()) text += "/" + encoded(uri.master());
  const std::string database = std::to_string(uri.database());
  text += uri.is_unix() ? "/" + encoded(uri.path().substr(1)) + "?db=" + database : "/" + database + "?";
  if (uri.client_name()) text += "&name=" + encoded(*uri.client_name());
  if (uri.connect_timeout()) text += "&connect_timeout=" + std::to_string(uri.connect_timeout()->count()) + "ms";
  if (uri.command_timeout()) text += "&command_timeout=" + std::to_string(uri.command_timeout()->count()) + "ms";
  if (!uri.sentinel_user().empty()) text += "&sentinel_user=" + encoded(uri.sentinel_user());
  if (!uri.sentinel_password().empty()) text += "&sentinel_password=" + encoded(uri.sentinel_password());
  if (const std::size_t first = text.find("?&"); first != std::string::npos) text.erase(first + 1, 1);
  if (text.ends_with('?')) text.pop_back();
  return text;
}

bool same_place(const Uri& a, const Uri& b) {
  return a.is_unix() == b.is_unix() && a.is_sentinel() == b.is_sentinel() && a.is_cluster() == b.is_cluster() &&
         a.is_tls() == b.is_tls() && a.path() == b.path() && a.hosts() == b.hosts() && a.master() == b.master() &&
         a.database() == b.database() && a.user() == b.user();
}

bool equal(const Uri& a, const Uri& b) {
  return same_place(a, b) && a.password() == b.password() && a.client_name() == b.client_name() &&
         a.connect_timeout() == b.connect_timeout() && a.command_timeout() == b.command_timeout() &&
         a.sentinel_user() == b.sentinel_user() && a.sentinel_password() == b.sentinel_password();
}

// It is printed as it reads, not as it was encoded, and without the password that must be there for a user.
bool can_be_read_again(const Uri& uri) {
  for (const HostPort& each : uri.hosts()) {
    std::string host = each.host;
    std::erase(host, ':');
    if (!is_plain(host)) return false;
  }
  std::string path = uri.path();
  std::erase(path, '/');
  return is_plain(path) && is_plain(uri.user()) && is_plain(uri.master());
}

void read_again(const Uri& uri) {
  std::string text = uri.text();
  if (!uri.user().empty()) text.insert(text.find("://") + 3 + uri.user().size(), ":x");
  const Uri again(text);
  check(same_place(uri, again) && again.text() == uri.text(), "what is printed is the same place");
}

std::optional<Uri> parsed(const std::string& text) {
  try {
    return Uri(text);
  } catch (const std::invalid_argument& error) {
    check(std::string_view(error.what()).find("Hush") == std::string_view::npos, "an error quotes nothing");
    return std::nullopt;
  }
}

}  // namespace
}  // namespace redlock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redlock::fuzz;
  const std::string text(data, data + size);
  std::string marked = text;
  parsed(marked.insert(std::hash<std::string>()(text) % (size + 1), "Hush"));

  const std::optional<redlock::Uri> uri = parsed(text);
  if (!uri) return 0;
  check(equal(*uri, redlock::Uri(address(*uri, uri->password()))), "written again, it is the same");
  check(uri->text() == redlock::Uri(address(*uri, "Hush")).text() || uri->password().empty(),
        "what is printed has nothing of the password");
  if (can_be_read_again(*uri)) read_again(*uri);
  return 0;
}
