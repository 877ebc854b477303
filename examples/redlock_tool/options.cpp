#include "options.hpp"

#include <sysexits.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <redlock/version.hpp>
#include <stdexcept>

namespace {

constexpr const char* description =
    "flock(1) across machines: runs a command while it holds a lock in Redis, and renews the lock until the command "
    "ends.\nSeveral names: all of them at once, or none.";

struct Help : CLI::Formatter {
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: redlock [OPTION...] NAME... -- COMMAND [ARGUMENT...]\n"
           "       redlock [OPTION...] NAME... -c 'SHELL COMMAND'\n"
           "       redlock [--url URL] --status|--force-unlock NAME...\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {  // without what excludes what
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
};

constexpr const char* footer =
    "\nThe command finds REDLOCK_NAME (several: a line each), REDLOCK_TOKEN and, but for -s and -N, REDLOCK_FENCE in "
    "its\n"
    "environment: a number that grows from holder to holder, for what it writes to.\n"
    "\nExit status: the command's, 128 + n where signal n ended it;\n"
    "  -E's   somebody else holds the lock (-n, -w)        --status, --force-unlock: nobody holds it\n"
    "  64     wrong usage\n"
    "  69     Redis cannot be reached, without -n and -w for 10 s, or refuses\n"
    "  71     the system refuses: no more processes or files, nothing to write to\n"
    "  75     the lock was lost while the command ran\n"
    "  126    the command cannot be run                    127    there is no such command\n";

using Seconds = std::chrono::duration<double>;

std::string check_seconds(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && std::isfinite(value) && value >= 0 && value <= 1e9) return {};
  return "not a number of seconds: '" + text + "'";
}

CLI::Option* add_seconds(CLI::App& app, const std::string& flags, double& value, const std::string& text) {
  const CLI::Validator valid([](std::string& word) { return check_seconds(word); }, "");
  return app.add_option(flags, value, text)->check(valid)->type_name("SECONDS");
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(Seconds(seconds));
}

std::string version() {
  return std::to_string(REDLOCK_VERSION_MAJOR) + '.' + std::to_string(REDLOCK_VERSION_MINOR) + '.' +
         std::to_string(REDLOCK_VERSION_PATCH);
}

// The words of the command line as CLI11 fills them in.
struct Words {
  Options options;
  double wait = 0, ttl = 30, hold_at_least = 0;
  std::string shell_command, on_lost = "kill";
  bool by_shell = false, nonblock = false, shared = false, exclusive = false, status = false, force_unlock = false,
       no_fence = false;
};

void add_server_options(CLI::App& app, Options& options) {
  app.add_option("--url", options.urls, "of Redis; repeat it for a quorum ($REDIS_URL, which others do not see in ps)")
      ->allow_extra_args(false)
      ->type_name("URL");
  app.add_option("--cacert", options.ca, "with rediss: whom to trust (the system's)")->type_name("FILE");
  app.add_option("--cert", options.certificate, "with rediss: our certificate")->type_name("FILE");
  app.add_option("--key", options.key, "with rediss: its key")->type_name("FILE");
}

void add_options(CLI::App& app, Words& words) {
  Options& options = words.options;
  app.allow_extras();  // the names: a positional of CLI11 would take [a,b] for two
  auto* shell = app.add_option("-c,--command", words.shell_command, "run this by the shell")->type_name("STRING");
  auto* nonblock = app.add_flag("-n,--nonblock", words.nonblock, "do not wait");
  add_seconds(app, "-w,--wait", words.wait, "wait for so long at most")->excludes(nonblock);
  app.add_option("-E,--conflict-exit-code", options.conflict_status, "exit status where another holds the lock (1)")
      ->type_name("N")
      ->check(CLI::Range(0, 255).description(""));
  auto* shared = app.add_flag("-s,--shared", words.shared,
                              "share it with others who do; of one name, lock all by -s or -x, or all without");
  auto* exclusive =
      app.add_flag("-x,--exclusive", words.exclusive, "share it with nobody, where others do")->excludes(shared);
  auto* permits =
      app.add_option("-N,--permits", options.permits, "let so many hold it at once")->type_name("N")->excludes(shared);
  permits->excludes(exclusive);
  permits->check(CLI::Range(1, 1'000'000).description(""));
  auto* fair = app.add_flag("--fair", options.fair, "first come, first served (-s, -x and -N always are)");
  fair->excludes(shared)->excludes(exclusive)->excludes(permits);
  add_seconds(app, "--ttl", words.ttl, "how long it outlives a machine that died (30)");
  add_seconds(app, "--hold-at-least", words.hold_at_least,
              "keep it for so long, also after the command has ended; at most --ttl");
  app.add_option("--replicas", options.replicas,
                 "count it, and each renewal, once so many replicas have it: for a third of the ttl, also with -n")
      ->type_name("N");
  app.add_flag("--no-fence", words.no_fence, "do without REDLOCK_FENCE, and its counter in Redis");
  app.add_option("--on-lost", words.on_lost,
                 "kill: the command gets SIGTERM, and SIGKILL before the lease would have run out; ignore (kill)")
      ->type_name("kill|ignore")
      ->check(CLI::IsMember({"kill", "ignore"}).description(""));
  add_server_options(app, options);
  app.add_flag("--verbose", options.verbose, "say what happens");
  auto* status = app.add_flag("--status", words.status, "say who holds it")->excludes(shell);
  app.add_flag("--force-unlock", words.force_unlock, "take it from whoever holds it")
      ->excludes(status)
      ->excludes(shell);
  app.set_version_flag("--version", version());
}

void complete(Words& words, std::vector<std::string> command, bool separated) {
  Options& options = words.options;
  if (words.status) options.action = Options::Action::status;
  if (words.force_unlock) options.action = Options::Action::force_unlock;
  if (words.shared) options.kind = Options::Kind::reader;
  if (words.exclusive) options.kind = Options::Kind::writer;
  if (options.permits > 0) options.kind = Options::Kind::permit;
  if (words.nonblock) options.wait = std::chrono::milliseconds(0);
  options.ttl = milliseconds(words.ttl);
  options.hold_at_least = milliseconds(words.hold_at_least);
  const bool is_shared = options.kind == Options::Kind::reader || options.kind == Options::Kind::permit;
  options.fencing = !words.no_fence && !is_shared;
  options.kill_when_lost = words.on_lost == "kill";
  options.command = std::move(command);
  if (words.by_shell) {
    const char* shell = std::getenv("SHELL");
    options.command = {shell != nullptr && *shell != '\0' ? shell : "/bin/sh", "-c", words.shell_command};
  }
  if (options.urls.empty()) {
    const char* url = std::getenv("REDIS_URL");
    options.urls = {url != nullptr && *url != '\0' ? url : "redis://127.0.0.1"};
  }
  if (options.names.empty()) throw std::invalid_argument("no NAME");
  for (const std::string& name : options.names) {
    if (name.starts_with('-')) throw std::invalid_argument("no such option: " + name);
  }
  if (options.hold_at_least > options.ttl) throw std::invalid_argument("--hold-at-least is longer than --ttl");
  const bool runs = options.action == Options::Action::run;
  if (separated && (!runs || words.by_shell)) throw std::invalid_argument("a command after -- is one too many");
  if (runs && options.command.empty()) throw std::invalid_argument("no command: redlock NAME -- COMMAND");
  if (options.kind != Options::Kind::lock && options.names.size() > 1)
    throw std::invalid_argument("-s, -x and -N take one name");
  if (!is_tls(options) && !(options.ca + options.certificate + options.key).empty())
    throw std::invalid_argument("--cacert, --cert and --key are for rediss://");
}

}  // namespace

std::optional<Options> parse(int count, char** words, int& status) {
  int own = 1;  // the words before the --
  while (own < count && std::string(words[own]) != "--") ++own;
  const bool separated = own < count;
  std::vector<std::string> command(words + own + (separated ? 1 : 0), words + count);

  CLI::App app{description, "redlock"};
  app.formatter(std::make_shared<Help>());
  app.footer(footer);
  Words parsed;
  add_options(app, parsed);
  try {
    app.parse(own, words);
    parsed.by_shell = app.count("--command") > 0;
    if (app.count("--wait") > 0) parsed.options.wait = milliseconds(parsed.wait);
    parsed.options.names = app.remaining();
    complete(parsed, std::move(command), separated);
    return parsed.options;
  } catch (const CLI::Success& help) {
    status = app.exit(help);
  } catch (const std::exception& error) {  // CLI11's, too
    std::cerr << "redlock: " << error.what() << "\nTry 'redlock --help'.\n";
    status = EX_USAGE;
  }
  return std::nullopt;
}
