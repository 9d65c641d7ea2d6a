#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leasehold::cli {

enum class Colour { plain, bold, dim, red, green, yellow, blue };

/// Standard output: a terminal, or a pipe or file that another program reads. Only a terminal gets
/// colours and other control sequences.
class Terminal {
 public:
  /// Looks at standard output, NO_COLOR and TERM.
  Terminal();

  bool interactive() const { return interactive_; }
  /// 80 if unknown. Asks each time, because windows are resized.
  std::size_t columns() const;
  std::size_t rows() const;

  /// The text in this colour, or unchanged if there are no colours.
  std::string paint(Colour colour, const std::string& text) const;

 private:
  bool interactive_ = false;
  bool coloured_ = false;
};

/// Asks on standard error and reads the answer from standard input, which must be a terminal. The
/// default is no.
bool ask(const std::string& question);
bool can_ask();

/// The progress of long work, redrawn in place on standard error. Shows nothing if that is not a
/// terminal.
class Progress {
 public:
  /// `total` is 0 if unknown.
  Progress(std::string what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `note` is shown after the bar.
  void show(std::uint64_t done, const std::string& note = {});

 private:
  std::string what_;
  std::uint64_t total_;
  bool shown_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point last_;
};

/// Like [#######······].
std::string bar(double share, std::size_t columns);

/// For as long as it lives, standard output shows another screen without a cursor, and keys are
/// read one by one without an echo. A signal that ends the program puts everything back as it was.
class FullScreen {
 public:
  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  /// The next key, or nothing in this time. 'q' if the input has ended.
  static std::optional<char> key(std::chrono::milliseconds timeout);
  /// Draws these lines over what was there; never scrolls.
  static void draw(const std::string& lines);
};

}  // namespace leasehold::cli
