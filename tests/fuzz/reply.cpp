#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.hpp"
#include "redlock/detail/node.hpp"
#include "server.hpp"
#include "unit/fakes.hpp"

// What a server sends, from the connection to the answer: nothing that it says is taken for a lock that it did not grant.
//
// The first letter says what it is asked, see below; a capital: the connection has been set up. What the server says
// follows, a pause where a '|' is; a '!' at the end closes the connection.
namespace redlock::fuzz {
namespace {

using namespace std::chrono_literals;
using namespace detail;
using Batch = std::vector<Request>;
using Kind = Answer::Kind;

constexpr TimePoint start = testing::FakeClock::start;
constexpr std::size_t greetings = 5;
const std::string hello =
    "+OK\r\n+OK\r\n+OK\r\n:7\r\n$70\r\nrun_id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nuptime_in_seconds:9\r\n\r\n";

RunId same_start() {
  RunId id;
  id.fill('a');
  return id;
}

Request request(Verb verb, std::string_view fence = {}, std::string_view queue = {}) {
  return {.verb = verb, .name = "job", .token = "me", .ttl = 30s, .fence_key = fence, .queue_key = queue};
}
Request shared(Verb verb, Mode mode) {
  Request all = request(verb, {}, "{job}:queue");
  all.mode = mode;
  return all;
}
Request several(Verb verb) {
  Request all = request(verb);
  all.keys = "1:a1:b";
  return all;
}
Request undo(std::int64_t client) {
  Request all = request(Verb::take_back);
  all.client_id = client;
  all.server = same_start();
  return all;
}
Request replicated(Verb verb, unsigned replicas) {
  Request all = request(verb);
  all.replicas = replicas;
  return all;
}

const std::vector<Batch>& batches() {
  static const std::vector<Batch> all = {
      {request(Verb::try_acquire)},                                      // a
      {request(Verb::acquire)},                                          // b
      {request(Verb::try_acquire, "{job}:fence")},                       // c
      {request(Verb::acquire, "{job}:fence")},                           // d
      {request(Verb::acquire, {}, "{job}:queue")},                       // e
      {request(Verb::try_acquire, "{job}:fence", "{job}:queue")},        // f
      {shared(Verb::acquire, Mode::reader)},                             // g
      {shared(Verb::try_acquire, Mode::permit)},                         // h
      {several(Verb::acquire)},                                          // i
      {request(Verb::renew), request(Verb::release)},                    // j
      {request(Verb::raise, "{job}:fence")},                             // k
      {request(Verb::look)},                                             // l
      {undo(7)},                                                         // m
      {undo(0)},                                                         // n
      {shared(Verb::downgrade, Mode::reader)},                           // o
      {replicated(Verb::acquire, 1)},                                    // p
      {replicated(Verb::renew, 1), replicated(Verb::renew, 2)},          // q
      {request(Verb::renew), several(Verb::renew), request(Verb::look)}  // r
  };
  return all;
}

struct Dialogue {
  const Batch& batch;
  std::vector<std::string> words;
  bool closes;

  static Dialogue of(std::string_view input) {
    const char letter = input.empty() ? 'A' : input.front();
    const bool is_capital = letter >= 'A' && letter <= 'Z';
    const auto which = static_cast<unsigned char>(letter - (is_capital ? 'A' : 'a'));
    Dialogue dialogue{batches()[which % batches().size()], {}, input.ends_with('!')};
    if (is_capital) dialogue.words.push_back(hello);
    input = input.substr(input.empty() ? 0 : 1, input.size() - 1 - (dialogue.closes && input.size() > 1 ? 1 : 0));
    for (std::size_t at = 0; at <= input.size();) {
      const std::size_t end = (std::min)(input.find('|', at), input.size());
      dialogue.words.emplace_back(input.substr(at, end - at));
      at = end + 1;
    }
    return dialogue;
  }
};

// All that was said, behind the greeting.
std::vector<ReplyPtr> replies_in(const std::string& spoken) {
  std::vector<ReplyPtr> replies;
  try {
    ReplyReader reader;
    reader.feed(spoken);
    while (ReplyPtr reply = reader.next()) replies.push_back(std::move(reply));
  } catch (const ConnectionError&) {  // NOLINT(*-empty-catch): what came before it counts
  }
  replies.erase(replies.begin(), replies.begin() + static_cast<std::ptrdiff_t>((std::min)(greetings, replies.size())));
  return replies;
}

Kind attempted(const Request& request, const redisReply& reply) {
  const bool waits = !request.queue_key.empty() && reply.type == REDIS_REPLY_ARRAY;
  const bool others = !request.keys.empty() && is_integer(reply);
  if (is_nil(reply) || waits || others) return Kind::no;
  if (!is_text(reply)) return Kind::failed;
  const std::string_view text = text_of(reply);
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  const bool is_plain = request.queue_key.empty() && request.keys.empty();
  const bool is_granted = request.fence_key.empty() ? text == (is_plain ? "OK" : "0") : is_number;
  return is_granted ? Kind::yes : Kind::failed;
}

// What one reply says of a request.
Kind said(const Request& request, const redisReply& reply) {
  if (is_acquisition(request.verb)) return attempted(request, reply);
  if (request.verb == Verb::look) return is_nil(reply) ? Kind::no : is_error(reply) ? Kind::failed : Kind::yes;
  if (!is_integer(reply) || reply.integer < 0 || reply.integer > 1) return Kind::failed;
  return reply.integer == 1 || request.verb == Verb::take_back ? Kind::yes : Kind::no;
}

// The script is not known, or what is looked at has several holders.
bool is_asked_again(const Request& request, const redisReply& reply) {
  const std::string_view text = text_of(reply);
  const bool has_several = request.verb == Verb::look && text.starts_with("WRONGTYPE");
  return is_error(reply) && (has_several || text.starts_with("NOSCRIPT"));
}

struct Said {
  Kind kind = Kind::failed;
  bool is_answered = false;
};

// What all of them say of each request.
std::vector<Said> said(const Batch& batch, const std::vector<ReplyPtr>& replies) {
  std::vector<std::pair<std::size_t, bool>> asked;  // whose, and whether it is what counts
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Request& each = batch[i];
    asked.emplace_back(i, true);
    const bool looks = each.verb == Verb::acquire && each.queue_key.empty() && each.keys.empty();
    if (looks) asked.emplace_back(i, false);
    if (looks || each.verb == Verb::look) asked.emplace_back(i, false);
  }
  std::vector<Said> all(batch.size());
  std::vector<bool> by_text(batch.size()), has_ttl(batch.size());
  for (std::size_t k = 0; k < asked.size() && k < replies.size(); ++k) {
    const auto [i, counts] = asked[k];
    const redisReply& reply = *replies[k];
    if (!counts) {
      has_ttl[i] = is_integer(reply);
    } else if (is_asked_again(batch[i], reply) && !by_text[i]) {
      asked.emplace_back(i, true);
      by_text[i] = true;
    } else {
      all[i] = {said(batch[i], reply), true};
    }
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].verb == Verb::look && !by_text[i] && !has_ttl[i]) all[i] = {};
  }
  // Whether there was somebody to kill first depends on the greeting, and is not told here.
  for (std::size_t k = 0; batch[0].client_id > 0 && k < 3 && k < replies.size(); ++k) {
    if (said(batch[0], *replies[k]) == Kind::yes) all[0].kind = Kind::yes;
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].replicas == 0 || all[i].kind != Kind::yes) continue;
    const bool is_acknowledged = asked.size() < replies.size() && is_integer(*replies[asked.size()]) &&
                                 replies[asked.size()]->integer >= static_cast<long long>(batch[i].replicas);
    if (!is_acknowledged) all[i] = {};
  }
  return all;
}

struct NoBell final : Bell {
  void ring(std::string_view /*name*/) noexcept override {}
  void ring_all() noexcept override {}
};

void check_answer(const Request& request, const Answer& answer, const Said& said) {
  check(answer.kind != Kind::yes || said.kind == Kind::yes, "a yes was said");
  check(answer.kind != Kind::no || said.kind == Kind::no, "a no was said");
  const bool is_lost = answer.kind == Kind::failed && answer.sent != TimePoint() && request.may_land();
  check(!is_lost || said.is_answered || answer.leftover, "what may land is chased");
  check(answer.kind != Kind::failed || answer.failure.what.starts_with("redis://127.0.0.1:"), "a failure says where");
  check(answer.redirect.empty() || error_kind(answer.redirect) == errc::redirected, "a redirection is one");
  check(answer.up_since == never || answer.up_since <= start + 10s, "a server is not younger than its answer");
}

bool has_failed(Operation& operation) { return operation.answers().front().kind == Kind::failed; }

// Whatever was said, a request that was not answered has no answer.
void check_silence(Node& node, const Server& server, TimePoint now) {
  const Request release = request(Verb::release);
  const Pending pending = node.submit(std::span(&release, 1), Lane::foreground, now + 5s);
  for (int i = 0; i < 4; ++i) pending->advance(now);
  check(pending->advance(now + 5s), "it ends in time");
  check(has_failed(*pending), "an answer is not taken for another's");
  server.turn_away();
}

void talk(const Server& server, const Settings& settings, const Dialogue& dialogue) {
  NoBell bell;
  testing::FakeBackground background;
  Node node(settings, 1, bell, background);
  const Pending pending = node.submit(dialogue.batch, Lane::foreground, start + 10s);
  TimePoint now = start;
  bool is_settled = pending->advance(now);
  Peer peer = server.accept();
  std::string spoken;
  std::size_t heard = 0;
  for (const std::string& words : dialogue.words) {
    if (is_settled) break;
    peer.say(words);
    spoken += words;
    is_settled = pending->advance(now) || pending->advance(now);
    heard += peer.heard();
  }
  if (dialogue.closes) peer.close();
  is_settled = is_settled || pending->advance(now);
  if (!is_settled) now = start + 10s;
  check(is_settled || pending->advance(now), "it ends in time");
  check(heard < std::size_t{32} * 1024, "a request is not repeated without end");

  const std::vector<Said> all = said(dialogue.batch, replies_in(spoken));
  for (std::size_t i = 0; i < all.size(); ++i) check_answer(dialogue.batch[i], pending->answers()[i], all[i]);
  check_silence(node, server, now);
}

}  // namespace
}  // namespace redlock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redlock::fuzz;
  static const Server server;
  static const redlock::detail::Settings settings(redlock::Uri("redis://:x@" + server.where() + "/1?name=n"), {});
  talk(server, settings, Dialogue::of(std::string_view(reinterpret_cast<const char*>(data), size)));
  return 0;
}
