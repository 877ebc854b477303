#pragma once

#include <array>
#include <cstddef>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "result.hpp"
#include "style.hpp"

// The table and the timelines as a page: one file, without scripts, without anything from elsewhere.
class Page {
 public:
  explicit Page(const std::vector<Result>& results) {
    out_ << std::fixed << std::setprecision(1);
    out_ << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            "<title>Six locks, five accidents</title>\n<style>\n"
         << style << "</style>\n</head>\n<body>\n<main>\n";
    introduce();
    table(results);
    legend();
    for (std::size_t way = 0; way < ways.size(); ++way) section(way, results);
    out_ << "</main>\n</body>\n</html>\n";
  }

  std::string text() const { return out_.str(); }

 private:
  static constexpr double width = 720, row = 30, left = 22, right = 34;

  static std::string escaped(std::string_view text) {
    std::string result;
    for (const char each : text) {
      switch (each) {
        case '&': result += "&amp;"; break;
        case '<': result += "&lt;"; break;
        case '>': result += "&gt;"; break;
        case '"': result += "&quot;"; break;
        default: result += each;
      }
    }
    return result;
  }

  static std::string anchor(const Result& result) {
    return "w" + std::to_string(result.way) + "a" + std::to_string(result.accident);
  }

  static const char* kind(Verdict verdict) {
    switch (verdict) {
      case Verdict::fine: return "fine";
      case Verdict::stale_write_refused: return "refused";
      default: return "wrong";
    }
  }
  static const char* sign(Verdict verdict) {
    switch (verdict) {
      case Verdict::fine: return "✓";
      case Verdict::stale_write_refused: return "⊘";
      default: return "✗";
    }
  }

  void introduce() {
    out_ << "<header>\n<h1>Six locks, five accidents</h1>\n<p>The ways in which people write a lock on Redis, each run "
            "in the accidents that happen to locks: real servers, real processes, leases of one second. Each worker "
            "reads a number in a database, works, and writes what it made of it. What they told while they ran makes "
            "the verdict.</p>\n</header>\n";
  }

  void table(const std::vector<Result>& results) {
    out_ << "<div class=\"wide\">\n<table>\n<thead><tr><td></td>";
    for (const Accident& each : accidents)
      out_ << "<th scope=\"col\" title=\"" << escaped(each.about) << "\">" << escaped(each.title) << "</th>";
    out_ << "</tr></thead>\n<tbody>\n";
    for (std::size_t way = 0; way < ways.size(); ++way) {
      out_ << "<tr><th scope=\"row\"><a href=\"#w" << way << "\">" << escaped(ways[way].title) << "</a></th>";
      for (const Result& each : results) {
        if (each.way != way) continue;
        out_ << "<td class=\"" << kind(each.verdict) << "\"><a href=\"#" << anchor(each) << "\"><span>"
             << sign(each.verdict) << "</span> " << escaped(words(each.verdict).brief) << "</a></td>";
      }
      out_ << "</tr>\n";
    }
    out_ << "</tbody>\n</table>\n</div>\n";
  }

  void legend() {
    out_ << "<dl class=\"accidents\">\n";
    for (const Accident& each : accidents)
      out_ << "<div><dt>" << escaped(each.title) << "</dt><dd>" << escaped(each.about) << "</dd></div>\n";
    out_ << "</dl>\n<p class=\"legend\"><i class=\"waiting\"></i> waits <i class=\"inside\"></i> inside <i "
            "class=\"stopped\"></i> stopped <i class=\"red\"></i> two inside <b>○</b> writes <b class=\"bad\">✗</b> "
            "dies <b class=\"warn\">⊘</b> is refused <b>⌫</b> deletes the key</p>\n";
  }

  void section(std::size_t way, const std::vector<Result>& results) {
    out_ << "<section id=\"w" << way << "\">\n<h2>" << escaped(ways[way].title) << "</h2>\n<pre>"
         << escaped(ways[way].code) << "</pre>\n<p>" << escaped(ways[way].about) << "</p>\n";
    for (const Result& each : results) {
      if (each.way == way) figure(each);
    }
    out_ << "</section>\n";
  }

  static double x(const Timeline& timeline, double time) {
    return left + time / timeline.length * (width - left - right);
  }

  void figure(const Result& result) {
    const Timeline& timeline = result.timeline;
    const double height = row * timeline.workers + 18;
    out_ << "<figure id=\"" << anchor(result) << "\">\n<figcaption><b>" << escaped(accidents[result.accident].title)
         << "</b> <span class=\"" << kind(result.verdict) << "\">" << sign(result.verdict) << ' '
         << escaped(words(result.verdict).full) << "</span></figcaption>\n<svg viewBox=\"0 0 " << width << ' ' << height
         << "\" role=\"img\"><title>" << escaped(story(timeline)) << "</title>\n";
    axis(timeline);
    for (const Span& each : timeline.red) {
      out_ << "<rect class=\"red\" x=\"" << x(timeline, each.from) << "\" y=\"0\" width=\""
           << std::max(2.0, x(timeline, each.to) - x(timeline, each.from)) << "\" height=\"" << row * timeline.workers
           << "\"/>\n";
    }
    for (const Span& each : timeline.spans) span(timeline, each);
    for (const Moment& each : timeline.moments) moment(timeline, each);
    for (int worker = 0; worker < timeline.workers; ++worker)
      label(4, row * worker + 20, "name", std::string(1, static_cast<char>('A' + worker)));
    out_ << "</svg>\n</figure>\n";
  }

  // Seconds, and a name for each worker.
  void axis(const Timeline& timeline) {
    for (int second = 0; second <= static_cast<int>(timeline.length); ++second) {
      const double at = x(timeline, second);
      out_ << "<line class=\"axis\" x1=\"" << at << "\" y1=\"0\" x2=\"" << at << "\" y2=\"" << row * timeline.workers
           << "\"/>";
      label(at + 2, row * timeline.workers + 13, "axis", std::to_string(second) + " s");
    }
  }

  void span(const Timeline& timeline, const Span& span) {
    static constexpr std::array<const char*, 3> classes{"waiting", "inside", "stopped"};
    const bool thin = span.state == State::waiting;
    const double from = x(timeline, span.from), to = x(timeline, span.to);
    out_ << "<rect class=\"" << classes.at(static_cast<std::size_t>(span.state)) << "\" x=\"" << from << "\" y=\""
         << row * span.worker + (thin ? 14 : 6) << "\" width=\"" << std::max(2.0, to - from) << "\" height=\""
         << (thin ? 3 : 18) << "\" rx=\"" << (thin ? 1 : 4) << "\"/>\n";
  }

  void moment(const Timeline& timeline, const Moment& moment) {
    const double at = x(timeline, moment.at), y = row * moment.worker;
    switch (moment.what) {
      case What::writes:
        out_ << "<circle class=\"write\" cx=\"" << at << "\" cy=\"" << y + 15 << "\" r=\"5\"/>\n";
        break;
      case What::dies: label(at - 6, y + 21, "bad", "✗"); break;
      case What::refused: label(at - 8, y + 21, "warn", "⊘"); break;
      case What::deletes: label(at + 6, y + 20, "mark", "⌫"); break;
      case What::gives_up: label(at - 50, y + 10, "mark", "gives up"); break;
      default: break;
    }
  }

  void label(double at, double y, const char* kind, const std::string& text) {
    out_ << "<text class=\"" << kind << "\" x=\"" << at << "\" y=\"" << y << "\">" << text << "</text>\n";
  }

  // For who cannot see the picture.
  static std::string story(const Timeline& timeline) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(1);
    for (const Moment& each : timeline.moments) {
      text << (text.tellp() > 0 ? "; " : "") << each.at << " s: " << static_cast<char>('A' + each.worker) << ' '
           << words(each.what);
    }
    return text.str();
  }

  std::ostringstream out_;
};
