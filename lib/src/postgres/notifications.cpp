#include "postgres/notifications.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

namespace leasehold::inline v0::postgres {
namespace {

// PostgreSQL allows 8,000 bytes.
constexpr std::size_t longest_notification = 7'000;

}  // namespace

std::optional<std::string> notification_of(std::span<const NewTask> tasks) {
  const auto now = std::chrono::system_clock::now();
  std::map<std::string_view, std::size_t> added;
  for (const NewTask& task : tasks) {
    if (task.run_at.value_or(now) + task.delay > now) continue;
    ++added[task.type];
  }
  if (added.empty()) return std::nullopt;
  std::string text;
  for (const auto& [type, number] : added) {
    if (!text.empty()) text += '\n';
    text.append(type).append("\t").append(std::to_string(number));
  }
  if (text.size() > longest_notification) text.clear();
  return text;
}

News read_notification(std::string_view text) {
  News news;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto tab = line.rfind('\t');
    if (tab == std::string_view::npos) return {};
    std::size_t number = 0;
    const char* const end = line.data() + line.size();
    const auto [rest, error] = std::from_chars(line.data() + tab + 1, end, number);
    if (error != std::errc{} || rest != end || number == 0) return {};
    news.added[std::string(line.substr(0, tab))] += number;
  }
  return news;
}

News all_news(std::span<const std::string> notifications) {
  News all;
  for (const std::string& notification : notifications) {
    const News news = read_notification(notification);
    if (news.added.empty()) return {};
    for (const auto& [type, number] : news.added) {
      all.added[type] = std::max(all.added[type], number);
    }
  }
  return all;
}

}  // namespace leasehold::inline v0::postgres
