#pragma once

#include <CLI/CLI.hpp>

namespace leasehold::cli {

/// Has CLI11 read the command line. Unlike CLI11 itself, it refuses empty values, takes a word like
/// [a,b] as it is, and does not repeat arguments that may contain passwords.
///
/// Throws Failure, CLI::ParseError and, for --help, CLI::CallForHelp.
void parse_arguments(CLI::App& root, int argc, const char* const* argv);

/// The command that was read, as far as the words go.
CLI::App& parsed_command(CLI::App& root);

/// Throws Failure if there are words that belong to no command or flag.
void refuse_extras(CLI::App& root);

}  // namespace leasehold::cli
