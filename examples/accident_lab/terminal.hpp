#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "result.hpp"

// The table and the timelines as text, at most 100 columns wide.
class Terminal {
 public:
  void print(const std::vector<Result>& results) const {
    std::printf("\n%-25s", "");
    for (const Accident& each : accidents) std::printf(" %-14s", short_title(each).c_str());
    std::printf("\n");
    for (std::size_t way = 0; way < ways.size(); ++way) {
      std::printf("%-25s", ways[way].title);
      for (const Result& each : results) {
        if (each.way == way) std::printf(" %s", coloured(each.verdict).c_str());
      }
      std::printf("\n");
    }
    for (const Result& each : results) print_timeline(each);
    std::printf(
        "\nA, B, C: workers   - waits   %s inside   %s two inside   . stopped   w writes   r refused   x dies\n",
        paint("#", blue).c_str(), paint("#", red).c_str());
  }

 private:
  static constexpr std::size_t columns = 84;
  static constexpr const char *red = "31", *green = "32", *yellow = "33", *blue = "34";

  static std::string short_title(const Accident& accident) { return std::string(accident.title).substr(0, 14); }

  std::string paint(const std::string& text, const char* colour) const {
    return colours_ ? "\033[" + std::string(colour) + "m" + text + "\033[0m" : text;
  }

  std::string coloured(Verdict verdict) const {
    std::string text = words(verdict).brief;
    text.resize(14, ' ');
    if (verdict == Verdict::fine) return paint(text, green);
    return paint(text, verdict == Verdict::stale_write_refused ? yellow : red);
  }

  void print_timeline(const Result& result) const {
    const Timeline& timeline = result.timeline;
    std::printf("\n%s, %s: %s\n", ways[result.way].title, accidents[result.accident].title, words(result.verdict).full);
    const auto column = [&](double time) {
      return static_cast<std::size_t>(time / timeline.length * static_cast<double>(columns - 1));
    };
    for (int worker = 0; worker < timeline.workers; ++worker) {
      std::string line(columns, ' ');
      for (const Span& each : timeline.spans) {
        if (each.worker != worker) continue;
        const char sign = each.state == State::waiting ? '-' : each.state == State::inside ? '#' : '.';
        for (std::size_t i = column(each.from); i <= column(each.to); ++i) line[i] = sign;
      }
      for (const Moment& each : timeline.moments) {
        if (each.worker != worker) continue;
        if (each.what == What::writes) line[column(each.at)] = 'w';
        if (each.what == What::refused) line[column(each.at)] = 'r';
        if (each.what == What::dies) line[column(each.at)] = 'x';
      }
      std::printf("  %c %s\n", 'A' + worker, in_colours(line, timeline, column).c_str());
    }
  }

  template <class Column>
  std::string in_colours(const std::string& line, const Timeline& timeline, const Column& column) const {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      bool is_red = false;
      for (const Span& each : timeline.red) is_red = is_red || (i >= column(each.from) && i <= column(each.to));
      const bool is_inside = line[i] == '#' || line[i] == 'w';
      text += is_inside ? paint(std::string(1, line[i]), is_red ? red : blue) : std::string(1, line[i]);
    }
    return text;
  }

  bool colours_ = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
};
