#include "redis/confirmation.hpp"

#include <algorithm>
#include <utility>

#include "support/duration_text.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using Needed = RedisReplicas::Needed;
using Type = RedisReply::Type;

// A replica that has come or gone is noticed after this time.
constexpr milliseconds longest_count_age{1'000};

}  // namespace

void ReplicaCount::note(const RedisReply& role, TimePoint now) {
  asked_at_ = now;
  count_ = 0;
  error_.clear();
  if (role.type == Type::error) {
    error_ = role.text;
  } else if (role.elements.size() > 2 && role.elements[0].text == "master") {
    count_ = static_cast<long long>(role.elements[2].elements.size());
  }
}

bool ReplicaCount::is_old(TimePoint now) const noexcept {
  return now - asked_at_ > longest_count_age;
}

long long ReplicaCount::needed_for(Needed needed) const noexcept {
  switch (needed) {
    case Needed::none:
      return 0;
    case Needed::any:
      return 1;
    case Needed::majority:
      return count_ / 2 + 1;
    case Needed::all:
      break;
  }
  return std::max(count_, 1LL);
}

void Confirmation::add(const RedisReplicas& wish) noexcept {
  if (wish.needed == Needed::none) return;
  Question& question = wish.until == RedisReplicas::Until::on_disk ? on_disk_ : received_;
  question.wanted = true;
  question.needed = std::max(question.needed, wish.needed);
  question.timeout = std::max(question.timeout, wish.timeout);
}

std::vector<std::vector<std::string>> Confirmation::questions(const ReplicaCount& replicas,
                                                              ReplicaCount::TimePoint now) {
  std::vector<std::vector<std::string>> commands;
  if (!needed()) return commands;
  asks_role_ = replicas.is_old(now);
  if (asks_role_) commands.push_back({"ROLE"});
  const auto number = [&](const Question& question) {
    return std::to_string(replicas.needed_for(question.needed));
  };
  const auto timeout = [](const Question& question) {
    return std::to_string(std::max<milliseconds::rep>(question.timeout.count(), 1));  // 0: for ever
  };
  if (received_.wanted) commands.push_back({"WAIT", number(received_), timeout(received_)});
  if (on_disk_.wanted) {
    commands.push_back({"WAITAOF", "1", number(on_disk_), timeout(on_disk_)});
  }
  return commands;
}

milliseconds Confirmation::longest_wait() const noexcept {
  return received_.timeout + on_disk_.timeout;
}

void Confirmation::note(RedisReply&& reply, ReplicaCount& replicas) {
  if (std::exchange(asks_role_, false)) {
    replicas.note(reply, std::chrono::steady_clock::now());
    return;
  }
  const bool is_wait = received_.wanted && !received_.answered;
  Question& question = is_wait ? received_ : on_disk_;
  question.answered = true;
  if (reply.type == Type::error) {
    question.error = std::move(reply.text);
  } else if (is_wait) {
    question.confirmed = reply.integer;
  } else if (reply.elements.size() == 2) {
    question.saved_here = reply.elements[0].integer > 0;
    question.confirmed = reply.elements[1].integer;
  }
}

void Confirmation::judge(const RedisReplicas& wish, std::span<RedisReply> replies,
                         ReplicaCount& replicas) const {
  if (wish.needed == Needed::none) return;
  const Question& question = wish.until == RedisReplicas::Until::on_disk ? on_disk_ : received_;
  if (!question.answered) return;
  if (!question.error.empty()) return deny(replies, question.error);
  const bool counts = wish.needed != Needed::any;
  if (counts && !replicas.error().empty()) return deny(replies, replicas.error());
  if (question.saved_here && question.confirmed >= replicas.needed_for(wish.needed)) {
    for (RedisReply& reply : replies) reply.replicated = true;
    return;
  }
  replicas.doubt();
  std::string why = std::to_string(question.confirmed);
  if (replicas.error().empty()) why += " of " + std::to_string(replicas.count());
  why += " replicas have confirmed it within " + duration_text(question.timeout);
  if (!question.saved_here) why += ", and the primary has not written it to disk";
  deny(replies, why);
}

void Confirmation::deny(std::span<RedisReply> replies, const std::string& why) {
  for (RedisReply& reply : replies) {
    const bool has_text =
        reply.type == Type::status || reply.type == Type::error || reply.type == Type::string;
    if (!has_text) reply.text = why;
  }
}

}  // namespace leasehold::inline v0::redis
