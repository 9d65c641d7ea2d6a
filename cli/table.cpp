#include "table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "text.hpp"

namespace leasehold::cli {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t narrowest = 8;

/// Narrows the widest column again and again until a row fits, or no column can become narrower.
void narrow(std::vector<std::size_t>& widths, std::size_t line) {
  const std::size_t gaps = gap * (widths.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), gaps) > line) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest <= narrowest) return;
    --*widest;
  }
}

std::string pad(const std::string& text, std::size_t width, Column::Align align) {
  const std::string blanks(width - std::min(width, width_of(text)), ' ');
  return align == Column::Align::right ? blanks + text : text + blanks;
}

}  // namespace

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = printable(cell.text);
  rows_.push_back(std::move(row));
}

std::string Table::render(const Terminal& terminal) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = width_of(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, width_of(row[i].text));
    widths.push_back(width);
  }
  if (terminal.interactive()) narrow(widths, terminal.columns());

  const auto line = [&](const std::vector<Cell>& row) {
    std::string out;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string text = pad(fit(row[i].text, widths[i]), widths[i], columns_[i].align);
      if (i + 1 == row.size()) text.erase(text.find_last_not_of(' ') + 1);
      out += (i == 0 ? "" : std::string(gap, ' ')) + terminal.paint(row[i].colour, text);
    }
    return out + "\n";
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Colour::bold);
  std::string out = line(titles);
  for (const auto& row : rows_) out += line(row);
  return out;
}

void Facts::add(std::string name, Cell value) {
  value.text = printable(value.text);
  facts_.emplace_back(std::move(name), std::move(value));
}

std::string Facts::render(const Terminal& terminal) const {
  std::size_t width = 0;
  for (const auto& fact : facts_) width = std::max(width, width_of(fact.first));
  std::string out;
  for (const auto& [name, value] : facts_) {
    out += terminal.paint(Colour::dim, pad(name, width, Column::Align::left)) + "  " +
           terminal.paint(value.colour, value.text) + "\n";
  }
  return out;
}

}  // namespace leasehold::cli
