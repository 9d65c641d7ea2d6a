#include "sqlite/database/schema.hpp"

#include <charconv>

#include "leasehold/errors.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite_schema.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using Reason = ServerRefused::Reason;

constexpr std::string_view application_id = "1279806540";  // "LHLL": PRAGMA application_id

/// How many tables there are, and whether one is ours.
struct Tables {
  std::int64_t number;
  bool ours;
};

Tables tables_of(Connection& connection) {
  auto found = connection.prepare(sql::tables);
  found.step();
  return {found.integer(0), found.integer(1) > 0};
}

void check_ours_in_transaction(Connection& connection, const OpenOptions& options,
                               const std::string& where) {
  if (options.strangers == Strangers::joined) return;
  const std::string id = connection.pragma("PRAGMA application_id");
  const Tables tables = tables_of(connection);
  if (id == application_id || tables.ours || (id == "0" && tables.number == 0)) return;
  throw ServerRefused(Reason::wrong_type,
                      where + ": this is the database of another program (application_id " + id +
                          ", " + std::to_string(tables.number) +
                          " tables): name a file of its own, or let migrate add our tables to it");
}

std::string with_present_time(std::string_view script) {
  constexpr std::string_view word = ":now";
  std::string text(script);
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word)) {
    text.replace(at, word.size(), std::to_string(since_boot().count()));
  }
  return text;
}

struct Installed {
  int version = 0;
  std::string boot_id;
};

Installed installed(Connection& connection, std::string_view kind) {
  if (!tables_of(connection).ours) return {};
  auto found = connection.prepare(sql::version, kind);
  if (!found.step()) return {};
  return {static_cast<int>(found.integer(0)), std::string(found.text(1))};
}

}  // namespace

int version_of(const EmbeddedText& migration) {
  int version = 0;
  std::from_chars(migration.name.data(), migration.name.data() + migration.name.size(), version);
  return version;
}

void check_ours(Connection& connection, const OpenOptions& options, const std::string& where) {
  connection.begin();  // somebody may be making it right now
  try {
    check_ours_in_transaction(connection, options, where);
  } catch (...) {
    connection.rollback();
    throw;
  }
  connection.rollback();
}

int install(Connection& connection, const OpenOptions& options, const std::string& where) {
  const Schema& schema = options.schema;
  const std::string& boot = options.boot_id.empty() ? boot_id() : options.boot_id;
  const int newest = version_of(*schema.migrations.back());

  const auto is_ready = [&](const Installed& found) {
    if (found.version > newest) {
      throw ServerRefused(Reason::newer_schema,
                          where + ": its tables for " + std::string(schema.kind) +
                              " are of version " + std::to_string(found.version) +
                              ", this Leasehold knows up to " + std::to_string(newest) +
                              ": update this program");
    }
    return found.version == newest && found.boot_id == boot;
  };
  // Mostly there is nothing to do, and then nobody need wait for a turn to write.
  if (const auto found = installed(connection, schema.kind); is_ready(found)) return found.version;

  connection.begin_immediate();
  try {
    check_ours_in_transaction(connection, options, where);
    if (tables_of(connection).number == 0) {
      connection.pragma("PRAGMA application_id = " + std::string(application_id));
    }
    connection.execute_script(sql::schema_table.text);
    const Installed found = installed(connection, schema.kind);
    if (!is_ready(found)) {
      for (const EmbeddedText* migration : schema.migrations) {
        if (version_of(*migration) > found.version) connection.execute_script(migration->text);
      }
      if (found.version > 0 && found.boot_id != boot && schema.on_new_boot) {
        connection.execute_script(with_present_time(schema.on_new_boot->text));
      }
      connection.execute(sql::set_version, schema.kind, newest, boot);
    }
    connection.commit();
    return found.version;
  } catch (...) {
    connection.rollback();
    throw;
  }
}

}  // namespace leasehold::inline v0::sqlite
