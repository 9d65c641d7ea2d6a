// Commits an order together with the task that ships it: no order without a shipment, and no
// shipment for an order that was rolled back.
//
//   transactional_enqueue_example postgresql://localhost/app
#include <iostream>
#include <leasehold/postgres.hpp>
#include <leasehold/tasks.hpp>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>

namespace {

void place_order(pqxx::connection& connection, leasehold::TaskQueue& tasks,
                 const std::string& item) {
  pqxx::work transaction{connection};
  const auto order = transaction.exec("INSERT INTO orders (item) VALUES (" +
                                      transaction.quote(item) + ") RETURNING id");
  const std::string id = order[0][0].c_str();
  leasehold::enqueue_in(transaction, tasks,
                        {.type = "ship", .payload = "{\"order\":" + id + "}", .unique_key = id});
  if (item == "dragon") throw std::runtime_error("we are out of dragons");
  transaction.commit();
}

int run(const char* uri) {
  leasehold::migrate(uri);
  leasehold::TaskQueue tasks{uri};
  pqxx::connection connection{uri};
  pqxx::nontransaction{connection}.exec(
      "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY, item text)");

  place_order(connection, tasks, "teapot");
  try {
    place_order(connection, tasks, "dragon");
  } catch (const std::runtime_error& error) {
    std::cout << "rolled back: " << error.what() << "\n";
  }

  int shipped = 0;
  for (auto& lease : tasks.lease({.types = {"ship"}, .limit = 10})) {
    std::cout << "shipping " << lease.payload() << "\n";
    lease.complete();
    ++shipped;
  }
  return shipped == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: transactional_enqueue_example postgresql://host/database\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
