#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>

#include "redis/connection.hpp"

namespace leasehold::inline v0::redis {

// What a server can make us hold. The largest replies that we ask for are the record of a lock with
// thousands of waiters, some MiB, and lists of lists.
inline constexpr std::size_t most_reply_bytes = std::size_t{64} * 1024 * 1024;
inline constexpr std::size_t most_reply_elements = 1'000'000;  // of all arrays in it
inline constexpr int most_reply_levels = 6;

/// hiredis makes room for as many elements as a server announces, and 1.x nests them to any depth,
/// which overflows the stack when they are freed. `Count` is int in 0.14 and size_t in 1.x.
template <class Count>
void* create_limited_array(const redisReadTask* task, Count elements) {
  int levels = 1;
  for (const redisReadTask* outer = task->parent; outer; outer = outer->parent) ++levels;
  auto& limits = *static_cast<ArrayLimits*>(task->privdata);
  limits.elements += static_cast<std::size_t>(elements);
  if (limits.elements > most_reply_elements || levels > most_reply_levels) {
    return nullptr;  // hiredis reports it as REDIS_ERR_OOM
  }
  return limits.of_hiredis->createArray(task, elements);
}

/// For a new reader. Set limits.elements to 0 after each reply.
inline void limit_arrays(redisReader& reader, ArrayLimits& limits) {
  static redisReplyObjectFunctions of_hiredis = *reader.fn;
  static redisReplyObjectFunctions limited = [] {
    redisReplyObjectFunctions functions = of_hiredis;
    functions.createArray = create_limited_array;
    return functions;
  }();
  limits = {.of_hiredis = &of_hiredis};
  reader.privdata = &limits;
  reader.fn = &limited;
}

}  // namespace leasehold::inline v0::redis
