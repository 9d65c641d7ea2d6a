// Starts a server and a child of another user, tells their process numbers, and crashes when told
// to.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "harness/process.hpp"
#include "harness/redis_server.hpp"

using leasehold::harness::Process;
using leasehold::harness::RedisServer;

int main() {
  // By a thread that ends: they must not die with it.
  std::unique_ptr<RedisServer> redis;
  std::unique_ptr<Process> other;
  std::thread{[&] {
    redis = std::make_unique<RedisServer>();
    other = std::make_unique<Process>(leasehold::harness::ProcessOptions{
        .argv = {"sleep", "1000"}, .run_as = leasehold::harness::unprivileged_user()});
  }}.join();
  std::cout << redis->pid() << "\n" << other->pid() << "\n";
  std::cout << redis->command({"PING"}).string << std::endl;
  std::string order;
  std::getline(std::cin, order);
  std::_Exit(7);
}
