#include "redis/connection.hpp"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "leasehold/errors.hpp"
#include "redis/redis_errors.hpp"
#include "redis/reply_limits.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

timeval to_timeval(milliseconds duration) {
  return {duration.count() / 1000, (duration.count() % 1000) * 1000};
}

/// At least a millisecond, because zero means "for ever" to the socket.
milliseconds until(Connection::Deadline deadline) {
  return std::max(milliseconds{1}, std::chrono::ceil<milliseconds>(deadline - steady_clock::now()));
}

// A reply that has begun to arrive may need this much longer than the time-out.
constexpr milliseconds time_to_complete{500};

std::string system_message(int error) { return std::generic_category().message(error); }

RedisReply convert(const redisReply& from) {
  RedisReply to;
  using Type = RedisReply::Type;
  switch (from.type) {
    case REDIS_REPLY_STATUS:
      to.type = Type::status;
      to.text.assign(from.str, static_cast<std::size_t>(from.len));
      break;
    case REDIS_REPLY_ERROR:
      to.type = Type::error;
      to.text.assign(from.str, static_cast<std::size_t>(from.len));
      break;
    case REDIS_REPLY_STRING:
      to.type = Type::string;
      to.text.assign(from.str, static_cast<std::size_t>(from.len));
      break;
    case REDIS_REPLY_INTEGER:
      to.type = Type::integer;
      to.integer = from.integer;
      break;
    case REDIS_REPLY_ARRAY:
      to.type = Type::array;
      to.elements.reserve(from.elements);
      for (std::size_t i = 0; i < from.elements; ++i) {
        to.elements.push_back(convert(*from.element[i]));
      }
      break;
    default:  // nil; we never ask for RESP3 and its types
      break;
  }
  return to;
}

/// The answer to TIME as 16 digits; zeros if it is none.
std::string to_digits(const RedisReply& time) {
  std::string digits(RedisLink::connected_at.begin(), RedisLink::connected_at.end());
  if (time.elements.size() != 2) return digits;
  const std::string& seconds = time.elements[0].text;
  const std::string& micros = time.elements[1].text;
  if (seconds.size() > digits.size() - 6 || micros.size() > 6) return digits;
  digits.replace(digits.size() - 6 - seconds.size(), seconds.size(), seconds);
  digits.replace(digits.size() - micros.size(), micros.size(), micros);
  return digits;
}

/// The text that follows this name in a reply of names and values; empty if it is missing.
std::string_view value_of(std::string_view name, const RedisReply& reply) {
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    if (reply.elements[i].text == name) return reply.elements[i + 1].text;
  }
  return {};
}

void append_number(std::string& out, char mark, std::size_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out += mark;
  out.append(digits.data(), end);
  out += "\r\n";
}

}  // namespace

void encode(RedisCommand command, std::string& out, std::vector<std::size_t>* stamps) {
  append_number(out, '*', command.size());
  for (const std::string_view argument : command) {
    append_number(out, '$', argument.size());
    if (stamps && argument.data() == RedisLink::connected_at.data()) stamps->push_back(out.size());
    out += argument;
    out += "\r\n";
  }
}

void Connection::FreeReader::operator()(redisReader* reader) const noexcept {
  redisReaderFree(reader);
}

Connection::Connection(std::shared_ptr<Destination> destination)
    : destination_(std::move(destination)), uri_(destination_->uri()) {}

Connection::~Connection() = default;

void Connection::close() noexcept {
  tls_.reset();
  socket_ = {};
  reader_.reset();
}

void Connection::abandon() noexcept {
  if (!open()) return;
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close();
}

void Connection::connect() {
  const Deadline deadline = steady_clock::now() + destination_->connect_timeout();
  moves_ = destination_->moves();  // before asking where to go
  const auto moved = [this] {
    return destination_->has_sentinels() && destination_->moves() != moves_;
  };
  const auto fail = [&](const std::string& why) -> void {
    close();
    throw Unavailable(uri_.display() + ": cannot connect: " +
                      (moved() ? "another server is the primary by now" : why));
  };
  try {
    uri_ = destination_->find_server(deadline);
    reader_.reset(redisReaderCreate());
    if (!reader_) fail("out of memory");
    limit_arrays(*reader_, array_limits_);
    incomplete_bytes_ = 0;
    socket_ = connector_.connect(uri_, deadline, moved);
    receive_timeout_ = milliseconds{0};
    if (destination_->tls()) start_tls(deadline, moved);
    greet(deadline, moved);
  } catch (const Broken& broken) {
    fail(broken.why);
  } catch (const Error&) {
    close();
    throw;
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void Connection::start_tls(Deadline deadline, const std::function<bool()>& give_up) {
  tls_ = std::make_unique<TlsSession>(destination_->tls(), uri_.host, uri_.display());
  std::array<char, 16 * 1024> buffer;
  try {
    for (std::string_view received; !tls_->handshake(received);) {
      send_to_socket(tls_->outgoing(), deadline);
      await_answer(deadline, give_up);
      set_receive_timeout(deadline);
      const auto bytes = read_from_socket(buffer);
      // Also if its bytes trickle in.
      if (!bytes || steady_clock::now() >= deadline) {
        throw Broken{"TLS handshake not complete within the time-out"};
      }
      received = *bytes;
    }
  } catch (const Broken& broken) {
    throw Broken{broken.why + tls_->guess()};
  } catch (const ServerRefused&) {
    send_to_socket(tls_->outgoing(), deadline);  // so that the server knows why, too
    throw;
  }
  send_to_socket(tls_->outgoing(), deadline);
  deliver(tls_->decrypt({}));  // of what came with the end of the handshake
}

void Connection::greet(Deadline deadline, const std::function<bool()>& give_up) {
  std::string bytes;
  const auto ask = [&](std::initializer_list<std::string_view> words) {
    encode({words.begin(), words.size()}, bytes);
  };
  if (!uri_.user.empty()) {
    ask({"AUTH", uri_.user, uri_.password});
  } else if (!uri_.password.empty()) {
    ask({"AUTH", uri_.password});
  }
  const std::string database = std::to_string(uri_.database);
  if (uri_.is_sentinel) {
    ask({"PING"});
  } else {
    // Sent even without a password or a database: only an answer proves that there is a Redis at
    // the other end, and that it lets us in.
    ask({"SELECT", database});
    ask({"TIME"});
    ask({"ROLE"});
    ask({"HELLO"});  // changes nothing, and needs no permission
  }
  send(bytes, deadline);  // if that fails, the server may still have said why it hung up
  await_answer(deadline, give_up);
  await_first_answer(deadline);
  if (!uri_.password.empty()) check_let_in(receive(deadline));
  checked(receive(deadline), uri_.display());
  if (uri_.is_sentinel) return;
  connected_at_ = to_digits(receive(deadline));
  role_ = receive(deadline);
  to_replica_ = !role_.elements.empty() && role_.elements[0].text == "slave";
  if (to_replica_ && destination_->has_sentinels()) {
    throw ServerRefused(
        ServerRefused::Reason::read_only,
        uri_.display() + ": the sentinels name this server, but it is not the primary yet");
  }
  check_mode(receive(deadline));
}

/// Some commands would work on a node of a cluster even if we did not know that it is one, but not
/// those for keys that other nodes have.
void Connection::check_mode(const RedisReply& hello) const {
  const std::string_view mode = value_of("mode", hello);  // missing before Redis 6
  if (mode == "cluster" && !uri_.is_cluster_node) {
    throw ServerRefused(ServerRefused::Reason::other,
                        uri_.display() + ": this server is a node of a Redis Cluster: use " +
                            (tls_ ? "rediss" : "redis") + "+cluster:// in the URI");
  }
  if (mode == "standalone" && uri_.is_cluster_node) {
    throw ServerRefused(ServerRefused::Reason::other,
                        uri_.display() + ": this server is not a node of a Redis Cluster: use " +
                            (tls_ ? "rediss" : "redis") + ":// in the URI");
  }
}

/// Waits until something has arrived. Throws Broken if `give_up` says so.
void Connection::await_answer(Deadline deadline, const std::function<bool()>& give_up) {
  const bool is_here = reader_->len > reader_->pos;
  if (!is_here && !await_event(socket_.fd(), POLLIN, deadline, give_up) && give_up()) {
    throw Broken{"given up"};
  }
}

/// A server that expects TLS, or another certificate, answers with an alert or hangs up.
void Connection::await_first_answer(Deadline deadline) {
  try {
    await_bytes(deadline);
  } catch (const Broken& broken) {
    if (tls_) throw Broken{broken.why + tls_->guess()};
    const bool hung_up = steady_clock::now() < deadline;
    if (!hung_up || !uri_.socket.empty()) throw;
    throw Broken{broken.why + "; if it expects TLS, use rediss:// instead of redis://"};
  }
  if (!tls_ && reader_->len > reader_->pos && TlsSession::is_tls(reader_->buf[reader_->pos])) {
    throw ServerRefused(
        ServerRefused::Reason::other,
        uri_.display() + ": the server expects TLS: use rediss:// instead of redis://");
  }
}

void Connection::check_let_in(RedisReply&& reply) const {
  const bool has_password =
      reply.type == RedisReply::Type::error && reply.text.find(uri_.password) != std::string::npos;
  for (const std::string_view code : {"WRONGPASS", "NOAUTH", "ERR invalid password"}) {
    if (!reply.text.starts_with(code)) continue;
    // If the password happens to be a word of the answer, only the code is shown.
    if (has_password) reply.text = code;
    checked(std::move(reply), uri_.display());
    return;  // not reached: checked() throws for an error
  }
  // A server that does not know AUTH repeats its arguments, or their beginning.
  if (reply.type == RedisReply::Type::error &&
      (has_password || reply.text.find("with args") != std::string::npos)) {
    throw ServerRefused(ServerRefused::Reason::authentication,
                        uri_.display() +
                            ": the server does not accept AUTH, leave user and password out of the "
                            "URI (its answer contains the password and is not shown)");
  }
  checked(std::move(reply), uri_.display());
}

bool Connection::hung_up() noexcept {
  constexpr int most_reads = 16;  // of messages of TLS, such as session tickets
  try {
    for (int i = 0; i < most_reads; ++i) {
      if (!read_some(MSG_DONTWAIT)) return false;
      // Bytes that nobody asked for mean that we have lost track of the replies: treat it as
      // closed.
      if (reader_->len > reader_->pos) return true;
    }
  } catch (const Broken&) {
  } catch (const std::exception&) {
  }
  return true;
}

std::size_t Connection::send(std::string_view bytes, Deadline deadline) {
  if (!tls_) return send_to_socket(bytes, deadline);
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const std::string_view plain = bytes.substr(sent, TlsSession::record_size);
    const std::string_view record = tls_->encrypt(plain);
    if (record.empty() || send_to_socket(record, deadline) != record.size()) break;
    sent += plain.size();
  }
  return sent;
}

/// Returns how many bytes were handed to the kernel.
std::size_t Connection::send_to_socket(std::string_view bytes, Deadline deadline) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now =
        ::send(socket_.fd(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now >= 0) {
      sent += static_cast<std::size_t>(now);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd writable{socket_.fd(), POLLOUT, 0};
      if (poll(&writable, 1, static_cast<int>(until(deadline).count())) == 0) break;
    } else if (errno != EINTR) {
      break;
    }
  }
  return sent;
}

void Connection::set_receive_timeout(Deadline deadline) {
  // The system call is saved while the time-out of the socket is about right.
  const milliseconds wanted = until(deadline);
  if (receive_timeout_ >= wanted && receive_timeout_ - wanted <= wanted / 8) return;
  const timeval timeout = to_timeval(wanted);
  setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  receive_timeout_ = wanted;
}

/// Returns a reply if one has arrived completely.
std::optional<RedisReply> Connection::parse() {
  void* raw = nullptr;
  if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK) {
    if (reader_->err == REDIS_ERR_OOM) {
      throw Broken{"a reply has too many elements or levels, or there is no memory for it"};
    }
    throw Broken{std::string("not a Redis reply: ") + reader_->errstr};
  }
  if (raw == nullptr) return std::nullopt;
  incomplete_bytes_ = array_limits_.elements = 0;
  const std::unique_ptr<void, void (*)(void*)> owned(raw, freeReplyObject);
  return convert(*static_cast<redisReply*>(raw));
}

/// Returns nothing if nothing arrived within the time-out of the socket.
std::optional<std::string_view> Connection::read_from_socket(std::span<char> buffer, int flags) {
  const ssize_t got = recv(socket_.fd(), buffer.data(), buffer.size(), flags);
  if (got > 0) return std::string_view(buffer.data(), static_cast<std::size_t>(got));
  if (got == 0) throw Broken{"connection closed by the server"};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
  if (errno != EINTR) throw Broken{system_message(errno)};
  return std::string_view();
}

/// False if nothing arrived within the time-out of the socket.
bool Connection::read_some(int flags) {
  std::array<char, 16 * 1024> buffer;
  const auto bytes = read_from_socket(buffer, flags);
  if (!bytes) return false;
  deliver(tls_ ? tls_->decrypt(*bytes) : *bytes);
  return true;
}

void Connection::deliver(std::string_view plain) {
  if (plain.empty()) return;
  incomplete_bytes_ += plain.size();
  if (incomplete_bytes_ > most_reply_bytes) throw Broken{"a reply is larger than 64 MiB"};
  redisReaderFeed(reader_.get(), plain.data(), plain.size());
}

void Connection::read_in_time(Deadline deadline) {
  set_receive_timeout(deadline);
  if (!read_some()) throw Broken{"no reply within the time-out"};
}

void Connection::await_bytes(Deadline deadline) {
  if (reader_->pos == reader_->len) read_in_time(deadline);
}

RedisReply Connection::receive(Deadline deadline) {
  std::optional<Deadline> give_up;  // however fast the bytes of an endless reply come in
  for (;;) {
    if (auto reply = parse()) return std::move(*reply);
    const auto now = steady_clock::now();
    if (!give_up) give_up = std::max(deadline, now) + time_to_complete;
    if (now > *give_up) throw Broken{"reply not complete within the time-out"};
    read_in_time(deadline);
  }
}

std::optional<RedisReply> Connection::receive_or_wake(Deadline deadline, int wake_fd) {
  for (;;) {
    if (auto reply = parse()) return reply;
    if (steady_clock::now() >= deadline) return std::nullopt;
    std::array<pollfd, 2> waits{pollfd{socket_.fd(), POLLIN, 0}, pollfd{wake_fd, POLLIN, 0}};
    const int ready = poll(waits.data(), waits.size(), static_cast<int>(until(deadline).count()));
    if (ready > 0 && waits[1].revents != 0) return std::nullopt;
    if (ready > 0) read_some();
  }
}

}  // namespace leasehold::inline v0::redis
