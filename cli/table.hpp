#pragma once

#include <string>
#include <vector>

#include "terminal.hpp"

namespace leasehold::cli {

struct Cell {
  std::string text;
  Colour colour = Colour::plain;

  // NOLINTBEGIN(google-explicit-constructor): a cell is a text
  Cell(std::string words, Colour with = Colour::plain) : text(std::move(words)), colour(with) {}
  Cell(const char* words, Colour with = Colour::plain) : text(words), colour(with) {}
  // NOLINTEND(google-explicit-constructor)
};

struct Column {
  enum class Align { left, right };

  std::string title;
  Align align = Align::left;
};

/// Aligned rows under titles. On a terminal the widest columns are cut, so that a row fits on a
/// line; in a pipe nothing is cut.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column. Makes the texts printable().
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }

  /// Returns the lines, each with its line end.
  std::string render(const Terminal& terminal) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Names and values, one pair a line. Makes the values printable().
class Facts {
 public:
  void add(std::string name, Cell value);
  std::string render(const Terminal& terminal) const;

 private:
  std::vector<std::pair<std::string, Cell>> facts_;
};

}  // namespace leasehold::cli
