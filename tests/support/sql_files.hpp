#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace leasehold::testing {

/// A file or folder of sql/.
inline std::filesystem::path sql_path(const std::string& name) {
  return std::filesystem::path(LEASEHOLD_SOURCE_DIR) / "sql" / name;
}

/// The text of a file of sql/.
inline std::string sql_file(const std::string& name) {
  std::ifstream file(sql_path(name));
  if (!file) throw std::runtime_error("no file sql/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The statements of a file of sql/, by their names. See cmake/EmbedText.cmake.
inline std::map<std::string, std::string> sql_statements(const std::string& file) {
  std::map<std::string, std::string> statements;
  std::istringstream lines(sql_file(file));
  std::string* current = nullptr;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view mark = "-- name: ";
    if (line.starts_with(mark)) {
      current = &statements[line.substr(mark.size())];
    } else if (current != nullptr) {
      *current += line + "\n";
    }
  }
  return statements;
}

}  // namespace leasehold::testing
