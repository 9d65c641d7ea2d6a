#include "tests/history/planted_bug.hpp"

#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "lua_scripts.hpp"

namespace leasehold::testing {
namespace {

/// Something in the scripts and what stands there instead. It must be in one script at least, or
/// the bug would silently not be planted.
struct Edit {
  PlantedBug bug;
  std::string_view right;
  std::string_view wrong;
};

constexpr std::array edits{
    Edit{PlantedBug::release_without_compare,
         "redis.call('GETRANGE', KEYS[1], '0', '32') == ARGV[1] .. '='",
         "redis.call('EXISTS', KEYS[1]) == 1"},
    Edit{PlantedBug::release_without_compare, "redis.call('GETRANGE', lock, '0', '32') ~= held or",
         ""},
    Edit{PlantedBug::acquire_without_free, "value, 'NX', 'PX', px", "value, 'PX', px"},
    Edit{PlantedBug::writer_beside_readers, "local room = holder == nil or",
         "local room = holder == 'shared' or holder == nil or"},
    Edit{PlantedBug::permits_without_limit, "room = redis.call('ZCARD', holders) < most",
         "room = true"},
    Edit{PlantedBug::tokens_from_one, "if token == 1 or token < least then", "if false then"},
    Edit{PlantedBug::tokens_from_one,
         "(token == 1 or token < least) and seed_token(value, least) or token", "token"},
    Edit{PlantedBug::lease_too_short, "pttl < 0 or pttl > linger then",
         "pttl < 0 or pttl > linger + 30 then"},
    Edit{PlantedBug::renewal_without_compare, "if current ~= string.sub(value, 1, 33) then",
         "if false then"},
    Edit{PlantedBug::renewal_after_the_end, "if pttl >= 0 and pttl <= linger then",
         "if false then"},
    Edit{PlantedBug::tokens_of_older_data, "if token == 1 or token < least then",
         "if token == 1 then"},
    Edit{PlantedBug::tokens_of_older_data,
         "(token == 1 or token < least) and seed_token(value, least) or token",
         "token == 1 and seed_token(value, least) or token"},
};

/// The scripts that the bug changes, by the SHA-1 that the library calls them by.
std::map<std::string, std::string, std::less<>> broken_scripts(PlantedBug bug) {
  std::map<std::string, std::string, std::less<>> broken;
  for (const Edit& edit : edits) {
    if (edit.bug != bug) continue;
    bool planted = false;
    for (const EmbeddedText* script : lua::all) {
      auto [text, is_new] = broken.emplace(script->sha1, script->text);
      const auto at = text->second.find(edit.right);
      if (at == std::string::npos) {
        if (is_new) broken.erase(text);
        continue;
      }
      text->second.replace(at, edit.right.size(), edit.wrong);
      planted = true;
    }
    if (!planted) {
      throw std::logic_error("no script contains \"" + std::string(edit.right) + "\"");
    }
  }
  return broken;
}

class BrokenLink final : public RedisLink {
 public:
  BrokenLink(PlantedBug bug, std::shared_ptr<RedisLink> link)
      : broken_(broken_scripts(bug)), link_(std::move(link)) {}

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& how) override {
    return link_->pipeline(Changed{*this, commands}.commands, how);
  }

  std::unique_ptr<RedisSubscription> subscribe(std::string channel,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    return link_->subscribe(std::move(channel), std::move(on_message), std::move(on_subscribed));
  }

  std::string where() const override { return link_->where(); }

 private:
  /// The commands, with EVAL of the broken text where EVALSHA of the right one was.
  struct Changed {
    Changed(const BrokenLink& link, std::span<const RedisCommand> original) {
      words.reserve(original.size());
      for (const RedisCommand& command : original) {
        auto& copy = words.emplace_back(command.begin(), command.end());
        const auto broken =
            copy.front() == "EVALSHA" ? link.broken_.find(copy[1]) : link.broken_.end();
        if (broken != link.broken_.end()) {
          copy[0] = "EVAL";
          copy[1] = broken->second;
        }
        commands.emplace_back(copy, command.key);
      }
    }
    std::vector<std::vector<std::string_view>> words;
    std::vector<RedisCommand> commands;
  };

  const std::map<std::string, std::string, std::less<>> broken_;
  const std::shared_ptr<RedisLink> link_;
};

}  // namespace

const char* to_string(PlantedBug bug) {
  switch (bug) {
    case PlantedBug::none:
      break;
    case PlantedBug::release_without_compare:
      return "release_without_compare";
    case PlantedBug::acquire_without_free:
      return "acquire_without_free";
    case PlantedBug::writer_beside_readers:
      return "writer_beside_readers";
    case PlantedBug::permits_without_limit:
      return "permits_without_limit";
    case PlantedBug::tokens_from_one:
      return "tokens_from_one";
    case PlantedBug::lease_too_short:
      return "lease_too_short";
    case PlantedBug::renewal_without_compare:
      return "renewal_without_compare";
    case PlantedBug::renewal_after_the_end:
      return "renewal_after_the_end";
    case PlantedBug::tokens_of_older_data:
      return "tokens_of_older_data";
  }
  return "none";
}

std::vector<PlantedBug> all_planted_bugs() {
  return {PlantedBug::release_without_compare, PlantedBug::acquire_without_free,
          PlantedBug::writer_beside_readers,   PlantedBug::permits_without_limit,
          PlantedBug::tokens_from_one,         PlantedBug::lease_too_short,
          PlantedBug::renewal_without_compare, PlantedBug::renewal_after_the_end,
          PlantedBug::tokens_of_older_data};
}

PlantedBug planted_bug(std::string_view name) {
  if (name == to_string(PlantedBug::none)) return PlantedBug::none;
  for (const PlantedBug bug : all_planted_bugs()) {
    if (name == to_string(bug)) return bug;
  }
  throw std::invalid_argument("no planted bug is called " + std::string(name));
}

std::shared_ptr<RedisLink> plant(PlantedBug bug, std::shared_ptr<RedisLink> link) {
  if (bug == PlantedBug::none) return link;
  return std::make_shared<BrokenLink>(bug, std::move(link));
}

}  // namespace leasehold::testing
