#pragma once

#include <functional>
#include <string>

namespace leasehold::harness {

/// Asks `missing` again and again until it returns an empty text. What it throws counts as missing
/// too: a server may not answer yet. After two minutes, throws a std::runtime_error that says
/// `what` did not happen and what was missing last.
void await(const std::string& what, const std::function<std::string()>& missing);

}  // namespace leasehold::harness
