#include "redis/shared_connection.hpp"

#include <algorithm>
#include <utility>

#include "redis/redis_errors.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::steady_clock;

constexpr auto first_pause = std::chrono::milliseconds{50};
constexpr auto longest_pause = std::chrono::milliseconds{2'000};

// After this long without use a system call checks whether the server has hung up. A connection
// that broke while it was idle is then replaced before anything is sent on it.
constexpr auto idle_before_check = std::chrono::milliseconds{20};

// A buffer is kept for the next commands unless it has grown beyond this.
constexpr std::size_t most_kept_buffer = 256 * 1024;

void clear_for_reuse(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > most_kept_buffer) std::string().swap(buffer);  // = {} would keep it
}

std::string& encode_buffer() {
  thread_local std::string buffer;
  clear_for_reuse(buffer);
  return buffer;
}

std::vector<std::size_t>& stamp_buffer() {
  thread_local std::vector<std::size_t> buffer;
  buffer.clear();
  return buffer;
}

}  // namespace

void SharedConnection::Failure::raise() const {
  switch (kind) {
    case FailureKind::unavailable:
      throw Unavailable(what);
    case FailureKind::outcome_unknown:
      throw OutcomeUnknown(what);
    case FailureKind::refused:
      break;
  }
  throw ServerRefused(reason, what);
}

SharedConnection::SharedConnection(std::shared_ptr<Destination> destination)
    : destination_(std::move(destination)),
      connection_(destination_),
      where_(destination_->uri().display()),
      backoff_(first_pause, longest_pause),
      move_backoff_(first_pause, longest_pause) {}

std::vector<RedisReply> SharedConnection::execute(std::span<const RedisCommand> commands,
                                                  milliseconds timeout,
                                                  const RedisReplicas& replicas) {
  std::string& bytes = encode_buffer();
  std::vector<std::size_t>& stamps = stamp_buffer();
  for (const RedisCommand& command : commands) encode(command, bytes, &stamps);

  Request request;
  request.bytes = bytes;
  request.expected = commands.size();
  request.buffer = bytes.data();
  request.stamps = stamps;
  request.replicas = replicas;
  request.replies.reserve(commands.size());  // here, on the heap of the thread that frees it
  request.deadline = steady_clock::now() + timeout;

  load_.fetch_add(1, std::memory_order_relaxed);
  const Role role = enqueue(request);
  if (role == Role::leads) {
    lead_one_round(request);
  } else {
    wait_for_answer_or_lead(request, role);
  }
  load_.fetch_sub(1, std::memory_order_relaxed);

  if (request.failure) request.failure->raise();
  return std::move(request.replies);
}

SharedConnection::Role SharedConnection::enqueue(Request& request) {
  const ThreadLock lock(mutex_);
  Bells& bells = bells_[round_ % bells_.size()];
  request.bell = tail_ ? &bells.others : &bells.first;
  request.keeps_time = !tail_ || request.deadline < tail_->deadline;
  (tail_ ? tail_->next : head_) = &request;
  tail_ = &request;
  if (has_leader_) return request.keeps_time ? Role::keeps_time : Role::relies;
  has_leader_ = true;
  return Role::leads;
}

/// Returns `answered` or `lead`; 0 if the deadline passed first. A caller that relies on another
/// sets no timer, which is a good part of what waiting costs.
std::uint32_t SharedConnection::wait(Request& request, Role role) {
  if (role == Role::relies) {
    auto word = request.bell->wait(request.told);
    if (word != keep_time || !request.told.compare_exchange_strong(word, 0)) return word;
  }
  return request.bell->wait_until(request.told, request.deadline);
}

void SharedConnection::wait_for_answer_or_lead(Request& request, Role role) {
  auto word = wait(request, role);
  if (word == 0) {
    if (withdraw(request)) {
      request.failure = {
          FailureKind::unavailable,
          where_ + ": not sent within the time-out because earlier commands are not answered"};
      return;
    }
    // A leader has taken it, and either answers within its own time-out or hands the lead over.
    word = request.bell->wait(request.told);
  }
  if (word == lead) lead_one_round(request);
}

/// Takes the request out of the queue. False if a leader has taken it already.
bool SharedConnection::withdraw(Request& request) {
  const ThreadLock lock(mutex_);
  if (request.taken) return false;
  Request** link = &head_;
  Request* previous = nullptr;
  while (*link != &request) {
    previous = *link;
    link = &(*link)->next;
  }
  *link = request.next;
  if (tail_ == &request) tail_ = previous;
  tell_to_keep_time(request.next);
  return true;
}

/// A caller has given up: those behind it have to watch their own deadlines now.
void SharedConnection::tell_to_keep_time(Request* behind) {
  Bell* bell = nullptr;  // they share one
  for (; behind; behind = behind->next) {
    if (behind->keeps_time) continue;
    behind->keeps_time = true;
    behind->told.store(keep_time, std::memory_order_release);
    bell = behind->bell;
  }
  if (bell) bell->ring();
}

void SharedConnection::lead_one_round(Request& own) {
  Round round = std::exchange(ahead_, {});
  if (!round.first) {
    round = take_queue();
    if (connect_for(round)) send(round);
  }
  receive(round);

  Request* successor = nullptr;
  {
    const ThreadLock lock(mutex_);
    successor = ahead_.first ? ahead_.first : head_;
    has_leader_ = successor != nullptr;
    if (successor) successor->taken = true;  // from now on it must lead and cannot withdraw
  }
  // The successor is told first, so that its round runs while we wake the others.
  if (successor) {
    Bell& its_bell = *successor->bell;  // the request may be gone as soon as it is told
    successor->told.store(lead, std::memory_order_release);
    its_bell.ring();
  }
  tell_answered(round, &own);
}

/// Wakes all callers of a round except its leader.
void SharedConnection::tell_answered(const Round& round, const Request* leader) {
  Bells& bells = *round.bells;
  bool others = false;
  for (Request* r = round.first; r;) {
    Request* const next = r->next;  // the request may be gone as soon as it is told
    if (r != leader) {
      others = others || r->bell == &bells.others;  // even of the first, if one before it withdrew
      r->told.store(answered, std::memory_order_release);
    }
    r = next;
  }
  if (!leader) bells.first.ring();
  if (others) bells.others.ring();
}

SharedConnection::Round SharedConnection::take_queue() {
  const ThreadLock lock(mutex_);
  Round round;
  round.first = head_;
  if (!head_) return round;
  head_ = tail_ = nullptr;
  round.bells = &bells_[round_++ % bells_.size()];
  for (Request* r = round.first; r; r = r->next) {
    r->taken = true;
    round.deadline = std::max(round.deadline, r->deadline);
  }
  return round;
}

/// False, and its requests have failed, if there is no connection.
bool SharedConnection::connect_for(Round& round) {
  const auto took = ensure_connected();
  if (!connection_.open()) {
    for (Request* r = round.first; r; r = r->next) r->failure = connect_failure_;
    return false;
  }
  // Connecting has a time-out of its own. If it counted against the commands' time, a slow network
  // could make each new connection be given up at once, for ever.
  round.deadline += took;
  return true;
}

/// Writes into the requests that ask for it when the connection was made. Those are refused if the
/// server was a replica then: by now it may be a primary, whose counters are older than that time.
/// From then on they have nothing to send and expect nothing.
void SharedConnection::stamp(Round& round) {
  for (Request* r = round.first; r; r = r->next) {
    if (r->stamps.empty()) continue;
    if (connection_.to_replica()) {
      const ServerRefused refused = explain("READONLY its role is that of a replica", where_);
      r->failure = {FailureKind::refused, refused.what(), refused.reason()};
      r->bytes = {};
      r->expected = 0;
      wants_to_move_ = true;
      continue;
    }
    for (const std::size_t at : r->stamps) {
      connection_.connected_at().copy(r->buffer + at, RedisLink::connected_at.size());
    }
  }
}

void SharedConnection::send(Round& round) {
  stamp(round);
  ask_for_confirmation(round);
  if (!round.first->next && round.question.empty()) {
    round.sent = connection_.send(round.first->bytes, round.deadline);
    round.complete = round.sent == round.first->bytes.size();
    return;
  }
  clear_for_reuse(outgoing_);
  for (Request* r = round.first; r; r = r->next) outgoing_ += r->bytes;
  outgoing_ += round.question;
  round.sent = connection_.send(outgoing_, round.deadline);
  round.complete = round.sent == outgoing_.size();
}

/// One question for the whole round: a WAIT keeps the connection from running what follows.
void SharedConnection::ask_for_confirmation(Round& round) {
  for (const Request* r = round.first; r; r = r->next) {
    if (r->expected > 0) round.confirmation.add(r->replicas);
  }
  for (const auto& words : round.confirmation.questions(replica_count_, steady_clock::now())) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    encode(views, round.question);
    ++round.answers;
  }
  round.deadline += round.confirmation.longest_wait();
}

/// Reads the replies to a round that was sent. Each of its requests ends with replies or a failure.
void SharedConnection::receive(Round& round) {
  if (!connection_.open()) return;  // the requests have failed already
  std::string why;
  try {
    Request* request = round.first;
    std::size_t sent = round.sent;
    if (sent > 0 && request->bytes.size() <= sent) {
      connection_.await_bytes(round.deadline);
      // Redis has nearly finished this round. It gets the next one before we read and wake threads.
      // Unless another connection is needed first, or a part of this one is missing: the server
      // would take what follows for that part.
      const bool stays = !wants_to_move_ && connection_.moves() == destination_->moves();
      if (stays && round.complete) ahead_ = take_queue();
      if (ahead_.first) {
        ahead_.deadline += round.confirmation.longest_wait();  // the server runs it after that
        send(ahead_);
      }
    }
    for (; request && request->bytes.size() <= sent; request = request->next) {
      while (request->replies.size() < request->expected) {
        const RedisReply& reply =
            request->replies.emplace_back(connection_.receive(round.deadline));
        if (reply.type == RedisReply::Type::error && is_about_this_server(reply.text)) {
          wants_to_move_ = true;
        }
      }
      sent -= request->bytes.size();
    }
    if (!request && round.complete) receive_confirmation(round);
    last_used_ = steady_clock::now();
    if (!request && round.complete) return;
    why = "connection lost while sending";
  } catch (const Connection::Broken& broken) {
    why = broken.why;
  } catch (const std::exception& error) {  // out of memory: the other callers must still be told
    why = error.what();
  }

  // A late reply would be taken for the answer to the next command, and a late request would take
  // effect after its caller was told that it failed.
  connection_.abandon();
  fail(round, why);
  if (!ahead_.first) return;
  fail(ahead_, why);
  tell_answered(std::exchange(ahead_, {}), nullptr);
}

void SharedConnection::receive_confirmation(Round& round) {
  Confirmation& confirmation = round.confirmation;
  for (std::size_t i = 0; i < round.answers; ++i) {
    confirmation.note(connection_.receive(round.deadline), replica_count_);
  }
  for (Request* r = round.first; r; r = r->next) {
    confirmation.judge(r->replicas, r->replies, replica_count_);
  }
}

/// Fails those requests of a round that have no answer. The others have an answer that no replica
/// has confirmed.
void SharedConnection::fail(Round& round, const std::string& why) const {
  std::size_t offset = 0;
  for (Request* r = round.first; r; r = r->next) {
    if (r->replies.size() < r->expected) {
      r->failure = {offset < round.sent ? FailureKind::outcome_unknown : FailureKind::unavailable,
                    where_ + ": " + why};
    } else if (r->replicas.needed != RedisReplicas::Needed::none) {
      Confirmation::deny(r->replies, "no replica has confirmed it: " + why);
    }
    offset += r->bytes.size();
  }
}

/// At once after a while of calm, then less and less often.
void SharedConnection::move_if_it_is_time(TimePoint now) {
  if (now < next_move_) return;
  if (now - next_move_ > longest_pause) move_backoff_.reset();
  next_move_ = now + move_backoff_.next();
  wants_to_move_ = false;
  destination_->move();
}

/// Leaves the connection open, or the reason in connect_failure_. Returns how long connecting took.
steady_clock::duration SharedConnection::ensure_connected() {
  const TimePoint now = steady_clock::now();
  if (connection_.open() && now - last_used_ > idle_before_check && connection_.hung_up()) {
    connection_.close();
  }
  if (wants_to_move_) move_if_it_is_time(now);
  if (connection_.moves() != destination_->moves()) {
    connection_.close();
    if (destination_->has_sentinels()) next_attempt_ = {};  // they know where to go
  }
  if (connection_.open()) return {};
  // Until the next attempt the last failure stands, whatever it was.
  if (now < next_attempt_) return {};
  try {
    connection_.connect();
    replica_count_.note(connection_.role(), steady_clock::now());
    wants_to_move_ = false;
    backoff_.reset();
    next_attempt_ = {};
  } catch (const ServerRefused& error) {
    connect_failure_ = {FailureKind::refused, error.what(), error.reason()};
  } catch (const std::exception& error) {
    connect_failure_ = {FailureKind::unavailable, error.what()};
  }
  const TimePoint after = steady_clock::now();
  if (!connection_.open()) next_attempt_ = after + backoff_.next();
  return after - now;
}

}  // namespace leasehold::inline v0::redis
