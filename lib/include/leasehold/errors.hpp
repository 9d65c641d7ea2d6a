#pragma once

#include <stdexcept>
#include <string>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

// Errors tell the caller what to do. Expected outcomes (the lock is busy, the lease is gone) are
// return values, not errors.

/// The base of every exception that Leasehold throws.
class LEASEHOLD_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument was refused before anything was sent. The message says what is allowed and what was
/// given. Retrying with the same argument is pointless.
class LEASEHOLD_API InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// The server could not be reached and the request was not sent, or it took too long and the server
/// has confirmed that it was cancelled: it did **not** happen. Retrying is safe.
class LEASEHOLD_API Unavailable : public Error {
 public:
  using Error::Error;
};

/// The request was sent but its reply was lost: it **may** have happened. Look before retrying.
class LEASEHOLD_API OutcomeUnknown : public Error {
 public:
  using Error::Error;
};

/// The server refused the request: it did **not** happen. reason() says whether waiting can help
/// or somebody has to change something.
class LEASEHOLD_API ServerRefused : public Error {
 public:
  enum class Reason {
    authentication,    ///< wrong or missing password: fix the URI
    certificate,       ///< TLS: the server's certificate, or ours, is not accepted
    permission,        ///< the user may not run this command or touch this key or file
    wrong_type,        ///< another program uses the same key for something else
    out_of_memory,     ///< the server is at its memory limit and refuses writes
    too_many_clients,  ///< the server accepts no more connections
    cannot_save,       ///< the server cannot save its data and refuses writes: look at its disk
    read_only,         ///< the server is a replica: the primary may be elsewhere after a failover
    no_replicas,       ///< fewer replicas than the server wants for a write
    no_primary,        ///< the cluster, or the primary of this replica, is down
    loading,           ///< the server is reading its data set: try again shortly
    busy,              ///< a script blocks the server: try again shortly
    conflict,          ///< other transactions kept getting in the way: try again shortly
    no_schema,         ///< the tables are missing or too old: run migrate()
    newer_schema,      ///< the tables were made by a newer Leasehold: update this program
    other,             ///< see what()
  };

  ServerRefused(Reason reason, const std::string& what, bool halfway = false)
      : Error(what), reason_(reason), halfway_(halfway) {}

  Reason reason() const noexcept { return reason_; }

  /// Whether the request, or a part of it, may have taken effect: a script was refused while it
  /// ran, or too few replicas have confirmed what it wrote.
  bool halfway() const noexcept { return halfway_; }

  /// Whether the same request can succeed later although nobody changes it. An acquire that may
  /// wait tries again.
  bool transient() const noexcept {
    switch (reason_) {
      case Reason::read_only:
      case Reason::no_replicas:
      case Reason::no_primary:
      case Reason::loading:
      case Reason::busy:
      case Reason::conflict:
        return true;
      default:
        return overloaded();
    }
  }

  /// Whether the server has too little room for more work. Such a server must be given time: an
  /// acquire tries again after 1 s, then less and less often, up to 60 s apart.
  bool overloaded() const noexcept {
    return reason_ == Reason::out_of_memory || reason_ == Reason::too_many_clients ||
           reason_ == Reason::cannot_save;
  }

 private:
  Reason reason_;
  bool halfway_;
};

/// A write in the caller's own transaction came too late: the worker no longer holds the lease of
/// the task. Let the transaction roll back, because another worker has the task or will get it.
class LEASEHOLD_API LeaseLost : public Error {
 public:
  using Error::Error;
};

/// A fencing token was refused because a newer one has been seen: its holder has lost the lock. The
/// transaction in which it was checked is aborted.
class LEASEHOLD_API StaleToken : public Error {
 public:
  using Error::Error;
};

}  // namespace leasehold::inline v0
