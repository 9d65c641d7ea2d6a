#pragma once

namespace leasehold::inline v0::postgres {

/// A backend that did not even answer a cancellation, because a disk hangs, for example. It is told
/// that the connection has ended: a pooler that has not sent the statement on yet then never will.
/// But the socket stays open on this side, because it tells when the backend is done. Until then
/// the backend counts as one of the pool.
///
/// It is taken for done as soon as whatever we are connected to has ended the connection. That is
/// the backend itself, unless there is a pooler or a proxy in between.
class AbandonedBackend {
 public:
  /// Owns the socket from here on, from which nobody reads any more.
  explicit AbandonedBackend(int socket) noexcept;
  ~AbandonedBackend();
  AbandonedBackend(AbandonedBackend&& other) noexcept;
  AbandonedBackend& operator=(AbandonedBackend&& other) noexcept;

  /// Whether the backend has answered, or has noticed the end of the connection. In both cases it
  /// ends by itself.
  bool is_done() const noexcept;

 private:
  int socket_;
};

}  // namespace leasehold::inline v0::postgres
