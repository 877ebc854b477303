#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace redlock::torture {

// Microseconds since boot, suspended time included: the same for all processes of a machine.
using Time = std::int64_t;

inline Time now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return Time{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

// One attempt to get a lock, and what came of it. 0: it did not come to that, or whoever made it was killed before.
struct Attempt {
  std::string id, name;  // the name says the kind
  int worker = 0;
  int share = 0, of = 0;  // how much of the lock it wants
  Time asked = 0, wait = 0;
  Time stopped = 0;   // when it was told to wait no longer
  Time answered = 0;  // granted or not
  bool granted = false;
  std::string error = {};  // why it was not, where that is not another's lease, its wait or its stop
  std::optional<std::uint64_t> fence;
  Time first_valid = 0, last_valid = 0;  // when the worker saw that the lease was valid
  Time left = 0;                         // when it began to unlock, or to forget
  Time ended = 0;                        // when that had returned
  bool forgotten = false;                // without an unlock
  int written = 0;                       // writes that the store acknowledged
};

// What a worker leaves behind where it ends by itself.
struct Leftovers {
  int worker = 0;
  long threads = 0, files = 0, bytes = 0;
};

// Appends to a file what a worker does. What is written stays when the worker is killed.
//
// Thread safety: all members.
class Recorder {
 public:
  explicit Recorder(const std::string& file)
      : file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
    if (file_ < 0) throw std::runtime_error("cannot write " + file);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { ::close(file_); }

  template <class... Word>
  void write(std::string_view what, const Word&... words) {
    std::ostringstream line;
    line << what;
    ((line << ' ' << words), ...);
    line << '\n';
    const std::string text = line.str();
    if (::write(file_, text.data(), text.size()) < 0) std::abort();
  }

 private:
  const int file_;
};

// What all workers of a run have written.
struct History {
  std::vector<Attempt> attempts;
  std::vector<Leftovers> leftovers;
  std::vector<std::string> complaints;  // of the workers themselves

  // The last line of a worker that was killed may be half.
  void read(const std::string& file, int worker) {
    std::map<std::string, std::size_t> places;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      std::istringstream words(line);
      std::string what, id;
      words >> what;
      if (what == "!") {
        complaints.push_back("worker " + std::to_string(worker) + ":" + line.substr(1));
      } else if (what == "leftovers") {
        Leftovers all;
        all.worker = worker;
        words >> all.threads >> all.files >> all.bytes;
        leftovers.push_back(all);
      } else if (words >> id; what == "ask") {
        places[id] = attempts.size();
        Attempt attempt;
        attempt.id = id;
        attempt.worker = worker;
        words >> attempt.name >> attempt.share >> attempt.of >> attempt.asked >> attempt.wait;
        attempts.push_back(std::move(attempt));
      } else {
        read(what, words, attempts.at(places.at(id)));
      }
    }
  }

 private:
  void read(const std::string& what, std::istringstream& words, Attempt& attempt) {
    if (what == "granted") {
      attempt.granted = true;
      words >> attempt.answered;
      if (std::uint64_t fence = 0; words >> fence) attempt.fence = fence;
    } else if (what == "not") {
      std::getline(words >> attempt.answered >> std::ws, attempt.error);
    } else if (what == "stops") {
      words >> attempt.stopped;
    } else if (what == "valid") {
      words >> attempt.last_valid;
      if (attempt.first_valid == 0) attempt.first_valid = attempt.last_valid;
    } else if (what == "wrote") {
      ++attempt.written;
    } else if (what == "leaves") {
      words >> attempt.left;
    } else if (what == "ended") {
      words >> attempt.ended;
    } else if (what == "forgets") {
      attempt.forgotten = true;
      words >> attempt.left;
      attempt.ended = attempt.left;
    } else {
      throw std::runtime_error("not a line of a history: " + what);
    }
  }
};

}  // namespace redlock::torture
