#include "terminal.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "text.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

winsize size_of_window() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::plain:
      return "";
    case Colour::bold:
      return "\x1b[1m";
    case Colour::dim:
      return "\x1b[2m";
    case Colour::red:
      return "\x1b[31m";
    case Colour::green:
      return "\x1b[32m";
    case Colour::yellow:
      return "\x1b[33m";
    case Colour::blue:
      return "\x1b[34m";
  }
  return "";
}

// The terminal's state before the one FullScreen. Global, because a signal handler needs it.
termios terminal_before{};
// Hides the cursor, and keeps long lines from being wrapped.
constexpr char enter_screen[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char leave_screen[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// Calls only what a signal handler may call.
void put_back() {
  ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
  [[maybe_unused]] const auto written =
      ::write(STDOUT_FILENO, leave_screen, sizeof leave_screen - 1);
}

void end_by(int signal) {
  put_back();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

Terminal::Terminal() {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  interactive_ = ::isatty(STDOUT_FILENO) == 1 && !dumb;
  coloured_ = interactive_ && !is_set("NO_COLOR");
}

std::size_t Terminal::columns() const {
  const auto columns = size_of_window().ws_col;
  return columns == 0 ? 80 : columns;
}

std::size_t Terminal::rows() const {
  const auto rows = size_of_window().ws_row;
  return rows == 0 ? 24 : rows;
}

std::string Terminal::paint(Colour colour, const std::string& text) const {
  if (!coloured_ || colour == Colour::plain || text.empty()) return text;
  return code_of(colour) + text + "\x1b[0m";
}

bool can_ask() { return ::isatty(STDIN_FILENO) == 1; }

bool ask(const std::string& question) {
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  if (!std::getline(std::cin, answer)) std::cerr << "\n";
  return answer == "y" || answer == "Y" || answer == "yes";
}

std::string bar(double share, std::size_t columns) {
  const auto full =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(columns));
  std::string text = "[" + std::string(full, '#');
  for (std::size_t i = full; i < columns; ++i) text += "·";
  return text + "]";
}

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)),
      total_(total),
      shown_(::isatty(STDERR_FILENO) == 1),
      began_(steady_clock::now()) {}

Progress::~Progress() {
  if (last_ != steady_clock::time_point{}) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(std::uint64_t done, const std::string& note) {
  const auto now = steady_clock::now();
  // Not for short work, and not more often than eyes can follow.
  if (!shown_ || now - began_ < milliseconds{300} || now - last_ < milliseconds{100}) return;
  last_ = now;
  std::string line = what_ + " ";
  if (total_ != 0) {
    line += bar(static_cast<double>(done) / static_cast<double>(total_), 30) + " ";
    line += std::to_string(std::min<std::uint64_t>(100, done * 100 / total_)) + "% ";
  }
  line += note.empty() ? with_commas(done) : note;
  std::fprintf(stderr, "\r%s\x1b[K", fit(line, 79).c_str());
  std::fflush(stderr);
}

FullScreen::FullScreen() {
  ::tcgetattr(STDIN_FILENO, &terminal_before);
  for (const int signal : ending_signals) ::signal(signal, end_by);
  termios raw = terminal_before;
  raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  std::cout << enter_screen << std::flush;
}

FullScreen::~FullScreen() {
  std::cout << std::flush;
  for (const int signal : ending_signals) ::signal(signal, SIG_DFL);
  put_back();
}

std::optional<char> FullScreen::key(milliseconds timeout) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, static_cast<int>(timeout.count())) <= 0) return std::nullopt;
  char key = 0;
  return ::read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
}

void FullScreen::draw(const std::string& lines) {
  const std::size_t rows = Terminal().rows();
  std::string out = "\x1b[H";
  std::istringstream stream(lines);
  std::string line;
  for (std::size_t row = 0; row < rows && std::getline(stream, line); ++row) {
    out += (row == 0 ? "" : "\r\n") + line + "\x1b[K";
  }
  std::cout << out << "\x1b[J" << std::flush;
}

}  // namespace leasehold::cli
