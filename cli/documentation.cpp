// leasehold completion, man and version: everything that is generated from the texts of the
// commands.
#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>

#include "commands.hpp"
#include "flag_values.hpp"
#include "leasehold/version.hpp"

namespace leasehold::cli {
namespace {

/// Each command by its name, with what may follow it: further words, or flags.
std::map<std::string, std::string> words_after(const Commands& commands) {
  std::map<std::string, std::string> words;
  std::set<std::string> first;
  for (const CLI::App* app : commands_below(commands.root())) {
    std::string flags;
    for (const CLI::Option* option : options_of(*app)) {
      for (const std::string& name : option->get_lnames()) flags += " --" + name;
    }
    const std::string name = name_of(*app);
    words[name] = flags.substr(1) + " --help";
    const auto blank = name.find(' ');
    const std::string group = name.substr(0, blank);
    first.insert(group);
    if (blank != name.npos) {
      words[group] += (words[group].empty() ? "" : " ") + name.substr(blank + 1);
    }
  }
  for (const std::string& name : first) words[""] += name + " ";
  words[""] += "--help --version";
  return words;
}

/// The lines that set $follows to the words that may come next. `before` is the shell's expression
/// for the words between leasehold and the cursor; both shells understand the rest.
std::string find_what_follows(const Commands& commands, const std::string& before) {
  std::string out =
      "  local word command= follows=\n"
      "  # The command so far: the words before the cursor that are not flags.\n"
      "  for word in " +
      before +
      "; do\n"
      "    case \"$command $word\" in\n";
  std::string known;
  for (const auto& [name, words] : words_after(commands)) {
    if (name.empty()) continue;
    const std::string pattern = name.find(' ') == name.npos ? " " + name : name;
    known += (known.empty() ? "      \"" : " | \"") + pattern + "\"";
  }
  out += known + ") command=\"${command:+$command }$word\" ;;\n    esac\n  done\n";
  out += "  case $command in\n";
  for (const auto& [name, words] : words_after(commands)) {
    out += "    \"" + name + "\") follows=\"" + words + "\" ;;\n";
  }
  return out + "  esac\n";
}

std::string bash_completion(const Commands& commands) {
  return "_leasehold() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]}\n" +
         find_what_follows(commands, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"") +
         "  COMPREPLY=($(compgen -W \"$follows\" -- \"$current\"))\n"
         "  # No word of ours fits: perhaps it is the name of a file.\n"
         "  [[ ${#COMPREPLY[@]} -gt 0 || $current == -* ]] || COMPREPLY=($(compgen -f -- "
         "\"$current\"))\n"
         "}\n"
         "complete -F _leasehold leasehold\n";
}

std::string zsh_completion(const Commands& commands) {
  return "#compdef leasehold\n"
         "_leasehold() {\n" +
         find_what_follows(commands, "\"${(@)words[2,CURRENT-1]}\"") +
         "  # No word of ours fits: perhaps it is the name of a file.\n"
         "  compadd -- ${=follows} || [[ $PREFIX == -* ]] || _files\n"
         "}\n"
         "# From a directory of $fpath zsh runs this file as the function, at the first <TAB>.\n"
         "if [[ $funcstack[1] == _leasehold ]]; then\n"
         "  _leasehold\n"
         "else\n"
         "  compdef _leasehold leasehold\n"
         "fi\n";
}

std::string completion(const Commands& commands, const std::string& shell) {
  const bool for_bash = parse_word("SHELL", shell, {"bash", "zsh"}) == 0;
  return for_bash ? bash_completion(commands) : zsh_completion(commands);
}

/// Escapes a text for troff.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '.' && (out.empty() || out.back() == '\n')) {
      out += "\\&.";
    } else {
      out += c;
    }
  }
  return out;
}

/// Lines that begin with a blank stay lines; the others are filled as paragraphs.
std::string roff_paragraphs(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      out += ".PP\n";
    } else if (line.starts_with(' ')) {
      out += ".br\n" + roff(line.substr(line.find_first_not_of(' '))) + "\n";
    } else {
      out += roff(line) + "\n";
    }
  }
  return out;
}

std::string roff_examples(const std::string& examples) {
  if (examples.empty()) return "";
  return ".PP\nExamples:\n.PP\n.nf\n.RS\n" + roff(examples) + "\n.RE\n.fi\n";
}

std::string roff_options(const CLI::App& app, const std::string& group) {
  std::string out;
  for (const CLI::Option* option : options_of(app)) {
    if (option->get_group() != group) continue;
    out +=
        ".TP\n\\fB" + roff(usage_of(*option)) + "\\fR\n" + roff(option->get_description()) + "\n";
  }
  return out;
}

std::string manual(const Commands& commands) {
  const CommandText& text = commands.text_of(commands.root());
  std::string out = ".TH LEASEHOLD 1 \"\" \"leasehold " + std::string(version()) +
                    "\" \"User Commands\"\n.SH NAME\nleasehold \\- " + roff(text.summary) +
                    "\n.SH SYNOPSIS\n.B leasehold\n.I COMMAND\n[OPTIONS]\n.SH DESCRIPTION\n" +
                    roff_paragraphs(text.details) + roff_examples(text.examples);
  out +=
      ".SH OPTIONS\n" + roff_options(commands.root(), "Options") +
      ".TP\n\\fB\\-h, \\-\\-help\\fR\nPrint the help of leasehold, or of the command before it\n";
  out += ".SH STORES\n" + roff_paragraphs(stores_text) + roff_options(commands.root(), "Stores");
  out += ".SH COMMANDS\n";
  for (const CLI::App* app : commands_below(commands.root())) {
    const CommandText& own = commands.text_of(*app);
    out += ".SS " + roff(name_of(*app)) + "\n" +
           roff_paragraphs(own.details.empty() ? own.summary + "." : own.details) +
           roff_options(*app, "Options") + roff_examples(own.examples);
  }
  out += ".SH EXIT STATUS\n.nf\n" + roff(exit_codes_text) + "\n.fi\n";
  out += ".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nIf it is set, there are no colours on a terminal.\n";
  return out + ".SH SEE ALSO\nleaseholdd \\-\\-help\n";
}

}  // namespace

void add_documentation(Commands& commands) {
  auto shell = std::make_shared<std::string>();
  CLI::App& app =
      commands.add(commands.root(),
                   {.name = "completion",
                    .summary = "Print the completion script for a shell",
                    .details = "Prints a script that makes the shell complete commands and flags.",
                    .examples = "source <(leasehold completion bash)\n"
                                "leasehold completion zsh > ~/.zfunc/_leasehold"},
                   {}, [shell, &commands](Session& session) {
                     const std::string script = completion(commands, *shell);
                     if (session.json) {
                       Session::print({{"shell", *shell}, {"script", script}});
                     } else {
                       std::cout << script;
                     }
                     return ExitCode::done;
                   });
  app.add_option("SHELL", *shell, "bash or zsh")->required();

  commands.add_hidden("man", {}, [&commands](Session&) {
    std::cout << manual(commands);
    return ExitCode::done;
  });

  commands.add(commands.root(),
               {.name = "version",
                .summary = "Print the version",
                .details = "",
                .examples = "leasehold version --json"},
               {}, [](Session& session) {
                 Session::print_version(session.json);
                 return ExitCode::done;
               });
}

}  // namespace leasehold::cli
