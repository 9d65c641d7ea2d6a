#include "tests/history/history_checker.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

namespace leasehold::testing {
namespace {

using Time = std::int64_t;
constexpr Time never = std::numeric_limits<Time>::max();

// What was sent and not answered, or sent by a process that was killed, reaches Redis within this
// time or not at all.
constexpr Time latest_arrival = 2'000'000'000;

/// A time during which a lock was somebody's, trusted and protected.
struct Span {
  Time begin = 0;
  Time end = 0;
  bool empty() const { return begin >= end; }
  bool contains(Time time) const { return begin <= time && time < end; }
};

/// What is left of a span when parts of it are taken out.
class Spans {
 public:
  Spans() = default;
  explicit Spans(Span whole) {
    if (!whole.empty()) parts_.push_back(whole);
  }

  bool empty() const { return parts_.empty(); }
  bool contains(Time time) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [time](const Span& part) { return part.contains(time); });
  }
  const std::vector<Span>& parts() const { return parts_; }

  void remove(Span gap) {
    std::vector<Span> left;
    for (const Span& part : parts_) {
      for (const Span rest : {Span{part.begin, std::min(part.end, gap.begin)},
                              Span{std::max(part.begin, gap.end), part.end}}) {
        if (!rest.empty()) left.push_back(rest);
      }
    }
    parts_ = std::move(left);
  }

 private:
  std::vector<Span> parts_;
};

/// One acquire and what became of it.
struct Grant {
  const Event* invoke = nullptr;
  const Event* done = nullptr;       // ok, fail or unknown; nothing if it was killed meanwhile
  std::vector<const Event*> events;  // on the grant, by time

  Time latest = never;  // when, at the latest, it happened in Redis
  Span trusted;         // in any way; empty if it was not granted
  Spans exclusive;      // trusted and protected, and nobody beside it
  Spans shared;         // trusted and protected, others of the kind beside it

  bool granted() const { return done != nullptr && done->phase == Phase::ok; }
  bool overrides() const { return invoke->overrides || invoke->op == Op::force_release; }
  Kind kind() const { return invoke->kind; }
  std::uint64_t token() const { return done->token; }
};

/// Redis lost its data, or the latest part of it, between these two.
struct DataLoss {
  Time from;
  Time to;
};

bool ends_trust(const Event& event) {
  switch (event.op) {
    case Op::release:
      return event.phase == Phase::invoke;
    case Op::check:
      return event.phase == Phase::fail;
    case Op::watch:
    case Op::extend:
    case Op::downgrade:
      return event.phase == Phase::lost;
    default:
      return false;
  }
}

bool promises_trust(const Event& event) {
  return event.phase == Phase::ok && (event.op == Op::acquire || event.op == Op::check ||
                                      event.op == Op::extend || event.op == Op::downgrade);
}

/// Whether the lease was prolonged by a request that was sent after this time. The trusted time
/// starts when the request is sent, and is shorter than the lease.
bool is_confirmed_after(Time time, const Grant& grant, Time seen_before = never) {
  return grant.invoke->ttl > 0 &&
         std::any_of(grant.events.begin(), grant.events.end(), [&](const Event* event) {
           return event->time < seen_before && promises_trust(*event) &&
                  event->until - grant.invoke->ttl >= time;
         });
}

class Checker {
 public:
  explicit Checker(const History& history) : history_(history) {
    collect();
    for (auto& [id, grant] : grants_) measure(grant);
    for (auto& [lock, grants] : locks_) protect(grants);
  }

  std::vector<Violation> check() {
    for (const auto& [lock, grants] : locks_) {
      check_occupancy(grants);
      check_token_order_of_calls(grants);
      check_token_order_of_holders(grants);
      check_releases(grants);
      for (const Grant* grant : grants) {
        check_life(*grant);
        check_not_freed(*grant);
        check_not_refused(*grant);
      }
    }
    for (const auto& [lock, accepted] : history_.registers) check_register(accepted);
    check_sightings();
    return std::move(violations_);
  }

 private:
  void report(Rule rule, const Event& first, const Event& second) {
    violations_.push_back({rule, first, second});
  }

  // From events to grants.

  void collect() {
    std::unordered_map<std::string, Time> killed;
    for (const Event& event : history_.events) {
      switch (event.op) {
        case Op::data_loss:
          if (event.phase == Phase::invoke) {
            losses_.push_back({event.time, never});
          } else if (!losses_.empty()) {
            losses_.back().to = event.time;
          }
          break;
        case Op::kill:
          killed[event.process] = event.time;
          break;
        case Op::acquire:
        case Op::force_release:
          if (event.phase == Phase::invoke) {
            Grant& grant = grants_[event.grant];
            grant.invoke = &event;
            locks_[event.lock].push_back(&grant);
            break;
          }
          [[fallthrough]];
        default: {
          // Without a beginning it is of a grant that this history does not know.
          const auto found = grants_.find(event.grant);
          if (found == grants_.end()) break;
          found->second.events.push_back(&event);
          if (event.op == found->second.invoke->op) found->second.done = &event;
        }
      }
    }
    for (auto& [id, grant] : grants_) {
      const auto dead = killed.find(grant.invoke->process);
      if (grant.granted()) {
        grant.latest = grant.done->time;
      } else if (grant.done != nullptr) {
        grant.latest = grant.done->time + latest_arrival;
      } else if (dead != killed.end()) {
        grant.latest = dead->second + latest_arrival;
      }
    }
  }

  static void measure(Grant& grant) {
    if (!grant.granted() || grant.invoke->op != Op::acquire) return;
    Time promised = 0;
    Time ended = never;
    Time downgraded = never;
    for (const Event* event : grant.events) {
      if (promises_trust(*event)) promised = std::max(promised, event->until);
      if (ends_trust(*event)) ended = std::min(ended, event->time);
      if (event->op == Op::downgrade && event->phase == Phase::invoke) {
        downgraded = std::min(downgraded, event->time);
      }
    }
    grant.trusted = {grant.done->time, std::min(promised, ended)};
    if (grant.kind() != Kind::exclusive) {
      grant.shared = Spans{grant.trusted};
    } else {
      grant.exclusive = Spans{{grant.trusted.begin, std::min(grant.trusted.end, downgraded)}};
      if (downgraded != never) grant.shared = Spans{{downgraded, grant.trusted.end}};
    }
  }

  /// Whether the intruder came, or may have come, after the grant and took the lock from it.
  static bool may_have_ousted(const Grant& intruder, const Grant& grant) {
    if (intruder.latest < grant.invoke->time) return false;
    if (intruder.invoke->op == Op::force_release || !intruder.granted()) {
      return intruder.kind() != Kind::permit;
    }
    switch (intruder.kind()) {  // tokens tell which of them was first
      case Kind::exclusive:
        return intruder.token() > grant.token();
      case Kind::shared:
        return grant.kind() == Kind::exclusive && intruder.token() >= grant.token();
      case Kind::permit:
        break;
    }
    return false;  // one more beside the others
  }

  void protect(std::vector<Grant*>& grants) const {
    std::vector<const Grant*> intruders;
    for (const Grant* grant : grants) {
      if (grant->overrides()) intruders.push_back(grant);
    }
    for (Grant* grant : grants) {
      if (!grant->granted()) continue;
      const auto suspend_protection = [grant](Span gap) {
        grant->exclusive.remove(gap);
        grant->shared.remove(gap);
      };
      for (const Grant* intruder : intruders) {
        if (intruder != grant && may_have_ousted(*intruder, *grant)) {
          suspend_protection({intruder->invoke->time, never});
        }
      }
      for (const DataLoss& loss : losses_) {
        if (grant->invoke->time >= loss.to) continue;
        // Only what was there all the time can be renewed later.
        const bool survived = is_confirmed_after(loss.to, *grant);
        suspend_protection({loss.from, survived ? loss.to : never});
      }
    }
  }

  // One lock as a state machine: who is in it now.

  struct Step {
    Time time;
    enum What { leave, enter } what;  // at the same time one leaves before another enters
    enum How { alone, beside } how;
    const Grant* grant;
  };

  static std::vector<Step> steps_of(const std::vector<Grant*>& grants) {
    std::vector<Step> steps;
    const auto add = [&](const Spans& spans, Step::How how, const Grant* grant) {
      for (const Span& span : spans.parts()) {
        steps.push_back({span.begin, Step::enter, how, grant});
        steps.push_back({span.end, Step::leave, how, grant});
      }
    };
    for (const Grant* grant : grants) {
      add(grant->exclusive, Step::alone, grant);
      add(grant->shared, Step::beside, grant);
    }
    std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
      return std::pair(a.time, a.what) < std::pair(b.time, b.what);
    });
    return steps;
  }

  static bool counts_as_permit(const Grant& grant) {
    return grant.kind() == Kind::permit && !grant.overrides();
  }

  void check_occupancy(const std::vector<Grant*>& grants) {
    std::list<const Grant*> alone;
    std::list<const Grant*> beside;
    for (const Step& step : steps_of(grants)) {
      auto& mine = step.how == Step::alone ? alone : beside;
      if (step.what == Step::leave) {
        mine.remove(step.grant);
        continue;
      }
      const auto conflict = [&](Rule rule, const std::list<const Grant*>& others) {
        for (const Grant* other : others) report(rule, *other->done, *step.grant->done);
      };
      if (step.how == Step::alone) {
        conflict(Rule::two_writers, alone);
        conflict(Rule::reader_beside_writer, beside);
      } else {
        conflict(Rule::reader_beside_writer, alone);
      }
      mine.push_back(step.grant);

      if (!counts_as_permit(*step.grant)) continue;
      const auto permits = std::count_if(beside.begin(), beside.end(), [](const Grant* other) {
        return counts_as_permit(*other);
      });
      if (permits > step.grant->invoke->limit) {
        const auto oldest = std::find_if(beside.begin(), beside.end(), [](const Grant* other) {
          return counts_as_permit(*other);
        });
        report(Rule::too_many_permits, *(*oldest)->done, *step.grant->done);
      }
    }
  }

  // Tokens as a state machine: the largest that was granted so far, alone and beside others.

  struct Floor {
    const Event* alone = nullptr;
    const Event* beside = nullptr;

    void raise(const Grant& grant) {
      const Event*& highest = grant.kind() == Kind::exclusive ? alone : beside;
      if (highest == nullptr || highest->token < grant.token()) highest = grant.done;
    }
  };

  void check_above(const Floor& floor, const Grant& grant) {
    const bool alone = grant.kind() == Kind::exclusive;
    if (floor.alone != nullptr &&
        (alone ? grant.token() <= floor.alone->token : grant.token() < floor.alone->token)) {
      if (!alone && joined_readers_of_old_data(grant, *floor.alone)) {
        outranked_.insert(&grant);
        return;
      }
      report(Rule::token_order, *floor.alone, *grant.done);
    } else if (alone && floor.beside != nullptr && grant.token() <= floor.beside->token) {
      report(Rule::token_order, *floor.beside, *grant.done);
    }
  }

  /// Whether a loss of data explains that a reader has a smaller token than a writer before it:
  /// those who read together have the same token, and older data may still have readers that the
  /// writer came after. Documented as a limit.
  bool joined_readers_of_old_data(const Grant& reader, const Event& writer) const {
    const Time asked = grants_.at(writer.grant).invoke->time;
    const bool lost = std::any_of(losses_.begin(), losses_.end(), [&](const DataLoss& loss) {
      return asked < loss.to && loss.from < reader.done->time;
    });
    const auto& all = locks_.at(reader.invoke->lock);
    const auto has_its_token = [&](const Grant* other) {
      return other != &reader && other->granted() && other->token() == reader.token() &&
             other->invoke->time < writer.time;
    };
    const auto first = std::find_if(all.begin(), all.end(), has_its_token);
    if (!lost || first == all.end()) return false;
    return std::any_of(all.begin(), all.end(), [&](const Grant* other) {
      if (!is_shared_at_last(*other)) return false;
      if (other->granted()) return has_its_token(other);
      // It may have been granted after all, for a moment, by the time that it was given up.
      return other->invoke->time < writer.time &&
             other->latest > (*first)->invoke->time + latest_arrival;
    });
  }

  static bool is_shared_at_last(const Grant& grant) {
    return grant.kind() != Kind::exclusive ||
           std::any_of(grant.events.begin(), grant.events.end(),
                       [](const Event* event) { return event->op == Op::downgrade; });
  }

  void check_token_order_of_calls(const std::vector<Grant*>& grants) {
    std::vector<std::pair<const Event*, const Grant*>> events;
    for (const Grant* grant : grants) {
      if (!grant->granted() || grant->invoke->op != Op::acquire) continue;
      events.emplace_back(grant->invoke, grant);
      events.emplace_back(grant->done, grant);
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.first->time < b.first->time; });
    Floor now;
    std::map<const Grant*, Floor> at_invoke;
    std::map<std::uint64_t, const Event*> given;
    for (const auto& [event, grant] : events) {
      if (event == grant->invoke) {
        at_invoke[grant] = now;
        continue;
      }
      check_above(at_invoke[grant], *grant);
      now.raise(*grant);
      if (grant->kind() != Kind::exclusive) continue;
      const auto [twin, is_new] = given.emplace(grant->token(), event);
      if (!is_new) report(Rule::token_order, *twin->second, *event);
    }
  }

  /// Of two that were trusted and protected when they were granted, the one that was trusted first
  /// had the lock first, even if it had asked for it later.
  void check_token_order_of_holders(const std::vector<Grant*>& grants) {
    std::vector<const Grant*> holders;
    for (const Grant* grant : grants) {
      const Spans& first = grant->kind() == Kind::exclusive ? grant->exclusive : grant->shared;
      if (grant->granted() && first.contains(grant->trusted.begin)) holders.push_back(grant);
    }
    std::stable_sort(holders.begin(), holders.end(), [](const Grant* a, const Grant* b) {
      return a->trusted.begin < b->trusted.begin;
    });
    Floor now;
    for (const Grant* grant : holders) {
      check_above(now, *grant);
      now.raise(*grant);
    }
  }

  /// No release may be told "done" from its beginning to its end inside another's time.
  void check_releases(const std::vector<Grant*>& grants) {
    std::vector<std::pair<Span, const Grant*>> holders;
    for (const Grant* grant : grants) {
      for (const Span& span : grant->exclusive.parts()) holders.emplace_back(span, grant);
    }
    std::sort(holders.begin(), holders.end(),
              [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
    for (const Grant* grant : grants) {
      const Event* invoke = nullptr;
      for (const Event* event : grant->events) {
        if (event->op != Op::release) continue;
        if (event->phase == Phase::invoke) invoke = event;
        if (event->phase != Phase::ok || invoke == nullptr) continue;
        const auto next =
            std::upper_bound(holders.begin(), holders.end(), invoke->time,
                             [](Time time, const auto& entry) { return time < entry.first.begin; });
        if (next == holders.begin()) continue;
        const auto& [span, holder] = *std::prev(next);
        if (holder != grant && span.contains(event->time)) {
          report(Rule::freed_by_another, *holder->done, *event);
        }
      }
    }
  }

  // One grant as a state machine: trusted, then not, and never again.

  void check_life(const Grant& grant) {
    const Event* over = nullptr;
    for (const Event* event : grant.events) {
      if (event->op == Op::watch && event->phase == Phase::fail) {
        report(Rule::not_told, *grant.invoke, *event);
      }
      if (over != nullptr && event->op == Op::check && event->phase == Phase::ok) {
        report(Rule::valid_again, *over, *event);
        return;
      }
      if (over == nullptr && ends_trust(*event)) over = event;
    }
  }

  /// In its trusted time a holder finds its lock where it left it.
  void check_not_freed(const Grant& grant) {
    if (!grant.granted()) return;
    Time promised = 0;
    for (const Event* event : grant.events) {
      if (promises_trust(*event)) promised = std::max(promised, event->until);
      const bool by_itself = event->reason == "expired" || event->reason == "max_hold";
      if (event->phase == Phase::lost && !by_itself && event->time < promised) {
        if (!may_be_ended_before(event->time, grant)) {
          report(Rule::freed_by_another, *grant.done, *event);
        }
        return;
      }
    }
  }

  /// By an override or a loss of data.
  bool may_be_ended_before(Time time, const Grant& grant) const {
    for (const DataLoss& loss : losses_) {
      if (grant.invoke->time < loss.to && loss.from < time &&
          !is_confirmed_after(loss.to, grant, time)) {
        return true;
      }
    }
    for (const Grant* other : locks_.at(grant.invoke->lock)) {
      if (other != &grant && other->overrides() && other->invoke->time < time &&
          may_have_ousted(*other, grant)) {
        return true;
      }
    }
    return false;
  }

  void check_not_refused(const Grant& grant) {
    if (outranked_.contains(&grant)) return;
    for (const Event* event : grant.events) {
      if ((event->op != Op::read && event->op != Op::write) || event->phase != Phase::fail) {
        continue;
      }
      if (grant.exclusive.contains(event->time) || grant.shared.contains(event->time)) {
        report(Rule::valid_holder_refused, *grant.done, *event);
      }
    }
  }

  // The register as a state machine: its value and the largest token that it has seen.

  void check_register(const std::vector<Event>& accepted) {
    const Event* highest = nullptr;
    const Event* written = nullptr;
    for (const Event& event : accepted) {
      if (highest != nullptr && event.token < highest->token) {
        report(Rule::stale_write_accepted, *highest, event);
      } else {
        highest = &event;
      }
      if (event.op != Op::write) continue;
      if (written != nullptr && event.from != written->value) {
        report(Rule::lost_update, *written, event);
      }
      written = &event;
    }
  }

  /// What was seen in the store itself, and the fault before it.
  void check_sightings() {
    const Event* latest_fault = nullptr;
    for (const Event& event : history_.events) {
      if (event.op == Op::fault || event.op == Op::data_loss) latest_fault = &event;
      const Event& cause = latest_fault != nullptr ? *latest_fault : event;
      if (event.op == Op::revived) report(Rule::lease_revived, cause, event);
      if (event.op == Op::stuck) report(Rule::not_recovered, cause, event);
    }
  }

  const History& history_;
  std::unordered_map<std::string, Grant> grants_;     // by id; addresses stay
  std::map<std::string, std::vector<Grant*>> locks_;  // by name, in the order of their invokes
  std::vector<DataLoss> losses_;
  std::set<const Grant*> outranked_;  // readers with a token that others have overtaken
  std::vector<Violation> violations_;
};

}  // namespace

const char* to_string(Rule rule) {
  switch (rule) {
    case Rule::two_writers:
      return "two_writers";
    case Rule::reader_beside_writer:
      return "reader_beside_writer";
    case Rule::too_many_permits:
      return "too_many_permits";
    case Rule::token_order:
      return "token_order";
    case Rule::freed_by_another:
      return "freed_by_another";
    case Rule::valid_again:
      return "valid_again";
    case Rule::stale_write_accepted:
      return "stale_write_accepted";
    case Rule::lost_update:
      return "lost_update";
    case Rule::valid_holder_refused:
      return "valid_holder_refused";
    case Rule::not_told:
      return "not_told";
    case Rule::lease_revived:
      return "lease_revived";
    case Rule::not_recovered:
      break;
  }
  return "not_recovered";
}

const char* invariants_of(Rule rule) {
  switch (rule) {
    case Rule::two_writers:
    case Rule::reader_beside_writer:
    case Rule::too_many_permits:
      return "L1";
    case Rule::token_order:
      return "L2, L11";
    case Rule::freed_by_another:
      return "L3";
    case Rule::valid_again:
    case Rule::not_told:
      return "L4";
    case Rule::stale_write_accepted:  // by the register, which is not the library's
    case Rule::lost_update:
    case Rule::valid_holder_refused:
      return "L1, L2";
    case Rule::lease_revived:
    case Rule::not_recovered:
      break;
  }
  return "L9";
}

std::ostream& operator<<(std::ostream& out, const Violation& violation) {
  out << to_string(violation.rule) << " (" << invariants_of(violation.rule)
      << ") lock=" << violation.second.lock;
  for (const Event* event : {&violation.first, &violation.second}) {
    out << "\n  " << event->place << "  " << to_line(*event);
  }
  return out;
}

std::vector<Violation> check_history(const History& history) { return Checker{history}.check(); }

}  // namespace leasehold::testing
