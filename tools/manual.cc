#include "tools/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "rpcrdma/version.h"
#include "tools/command.h"
#include "tools/manual_sections.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

constexpr std::string_view kDate = "2026-11-27";  // of the pages
// Options of `serve` that the file of settings does not take.
constexpr std::array<std::string_view, 4> kNoSettings = {"--help", "--config", "--check", "--unit"};
constexpr std::string_view kSettingsDescription =
    "The file has settings of rpcrdma-serve(1) in TOML, for `rpcrdma serve --config FILE`. Each "
    "setting is an option by its name without dashes, and means the same.\n"
    "\n"
    "A value is a string or a number, and true or false for an option without a value. An option "
    "that may be given several times takes a list, as in nfs = [\"/srv/a\", \"/srv/b:ro\"]. The "
    "file may have 1 MiB.\n"
    "\n"
    "A setting that does not exist and a value that is wrong are refused with their line, and "
    "nothing is served. An option on the command line replaces that of the file.";

// --- What the options say ----------------------------------------------------------------------

std::vector<const Command*> visible_subcommands(const Command& command) {
  std::vector<const Command*> visible;
  for (const auto& each : command.subcommands()) {
    if (!each->is_hidden()) visible.push_back(each.get());
  }
  return visible;
}

// Null: the name is empty.
const Command* find_subcommand(const Command& program, const std::string& name) {
  if (name.empty()) return nullptr;
  std::vector<std::string> names;
  for (const Command* each : visible_subcommands(program)) {
    if (each->name() == name) return each;
    names.push_back(each->name());
  }
  const std::string meant = nearest(name, names);
  fail(kUsage, fmt::format("there is no command '{}'{}; `rpcrdma help` lists them", name,
                           meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant)));
}

std::string joined(const std::vector<std::string>& words, std::string_view separator = " ") {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// --- Manual pages ------------------------------------------------------------------------------

std::string roff(const std::string& text) {
  std::string out = replaced(replaced(text, "\\", "\\e"), "-", "\\-");
  out = replaced(replaced(out, "\n.", "\n\\&."), "\n'", "\n\\&'");
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

std::string roff_help(const OptionFacts& option) {
  std::string out = roff(option.help);
  if (!option.default_text.empty()) {
    out += roff(fmt::format(" (default: {})", option.default_text));
  }
  return out + "\n";
}

std::string roff_option(const OptionFacts& option) {
  std::string out = fmt::format(".TP\n.B {}", roff(joined(option.names, ", ")));
  if (!option.choices.empty()) {
    out += roff(" " + joined(option.choices, "|"));
  } else if (option.takes_value) {
    out += " VALUE";
  }
  return out + "\n" + roff_help(option);
}

std::string roff_positional(const OptionFacts& option) {
  return fmt::format(".TP\n.I {}\n", roff(option.names[0])) + roff_help(option);
}

std::string roff_synopsis(const Command& program, const Command* subcommand) {
  if (subcommand == nullptr) return ".B rpcrdma\n.I COMMAND\n[OPTIONS]\n";
  std::string out =
      fmt::format(".B {} {}\n[OPTIONS]\n", roff(program.name()), roff(subcommand->name()));
  for (const OptionFacts& option : subcommand->positionals()) {
    const std::string name = roff(option.names[0]);
    out += option.is_required ? fmt::format(".I {}\n", name) : fmt::format("[{}]\n", name);
  }
  return out;
}

std::string roff_head(const std::string& name, int section, std::string_view title,
                      std::string_view about) {
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](char each) {
    return 'a' <= each && each <= 'z' ? static_cast<char>(each - 'a' + 'A') : each;
  });
  return fmt::format(".TH {} {} \"{}\" \"rpcrdma {}\" \"{}\"\n.SH NAME\n{} \\- {}\n", roff(upper),
                     section, kDate, kLibraryVersion, title, roff(name), roff(std::string(about)));
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

// Returns what stands in front of the tab, and behind it.
std::pair<std::string, std::string> halves(const std::string& line) {
  const auto tab = line.find('\t');
  return {roff(line.substr(0, tab)), roff(line.substr(tab + 1))};
}

std::string roff_list(std::string_view title, std::string_view text) {
  if (text.empty()) return {};
  std::string out = fmt::format(".SH {}\n", title);
  for (const std::string& line : split(text, "\n")) {
    const auto [term, what] = halves(line);
    out += fmt::format(".TP\n.B {}\n{}\n", term, what);
  }
  return out;
}

std::string roff_examples(std::string_view text) {
  if (text.empty()) return {};
  std::string out = ".SH EXAMPLES\n";
  for (const std::string& line : split(text, "\n")) {
    const auto [what, command] = halves(line);
    out += fmt::format(".TP\n{}:\n.B {}\n", what, command);
  }
  return out;
}

std::string roff_paragraphs(std::string_view title, std::string_view text) {
  if (text.empty()) return {};
  std::string out = fmt::format(".SH {}\n", title);
  const std::vector<std::string> paragraphs = split(text, "\n\n");
  for (const std::string& paragraph : paragraphs) {
    out += (&paragraph == &paragraphs.front() ? "" : ".PP\n") + roff(paragraph) + "\n";
  }
  return out;
}

// From "rpcrdma(1) exports(5)".
std::string roff_see_also(std::string_view pages) {
  std::string out = ".SH SEE ALSO\n";
  const std::vector<std::string> all = split(pages, " ");
  for (const std::string& page : all) {
    const auto at = page.find('(');
    out += fmt::format(".BR {} {}{}\n", roff(page.substr(0, at)), page.substr(at),
                       &page == &all.back() ? "" : " ,");
  }
  return out;
}

// Returns the parts behind the options, in the order of man-pages(7).
std::string roff_sections(const ManualSections& sections, const std::string& notes) {
  std::string out = roff_list("EXIT STATUS", sections.exit_status);
  out += roff_list("ENVIRONMENT", sections.environment) + roff_list("FILES", sections.files);
  out += roff_list("SIGNALS", sections.signals);
  if (!notes.empty()) out += ".SH NOTES\n.nf\n" + roff(notes) + "\n.fi\n";
  return out + roff_paragraphs("SECURITY", sections.security) + roff_examples(sections.examples) +
         roff_see_also(sections.see_also);
}

// Returns a line of the file for an option, such as "log-level = VALUE".
std::string setting_line(const OptionFacts& option) {
  const std::string name = option.names.back().substr(2);
  if (!option.takes_value) return name + " = true|false";
  if (!option.choices.empty()) return name + " = \"" + joined(option.choices, "\"|\"") + "\"";
  return name + " = VALUE";
}

bool is_setting(const OptionFacts& option) {
  return std::ranges::find(kNoSettings, option.names.back()) == kNoSettings.end();
}

// The page of the file of settings: the options of `serve` under their names there.
std::string settings_page(const Command& serve) {
  std::string out =
      roff_head(std::string(kSettingsPage), 5, "File Formats", "settings of rpcrdma serve");
  out += ".SH SYNOPSIS\n.I /etc/rpcrdma/serve.toml\n";
  out += roff_paragraphs("DESCRIPTION", kSettingsDescription) + ".SH SETTINGS\n";
  for (const OptionFacts& option : serve.options()) {
    if (!is_setting(option)) continue;
    out += fmt::format(".TP\n.B {}\n", roff(setting_line(option))) + roff_help(option);
  }
  return out + roff_sections(sections_of(kSettingsPage), "");
}

}  // namespace

std::string manual_page(const Command& program, const Command* subcommand) {
  const Command& page = subcommand != nullptr ? *subcommand : program;
  const std::string name =
      subcommand != nullptr ? program.name() + "-" + page.name() : program.name();
  std::string out = roff_head(name, 1, "User Commands", page.help());
  out += ".SH SYNOPSIS\n" + roff_synopsis(program, subcommand);
  out += ".SH DESCRIPTION\n" + roff(page.help()) + ".\n";
  if (subcommand != nullptr && !visible_subcommands(page).empty()) {
    out += ".SH COMMANDS\n";
    for (const Command* each : visible_subcommands(page)) {
      out += fmt::format(".TP\n.B {}\n{}\n", roff(each->name()), roff(each->help()));
    }
  }
  if (subcommand == nullptr) {
    out += ".SH COMMANDS\n";
    for (const Command* each : visible_subcommands(program)) {
      out += fmt::format(".TP\n.BR {}\\-{} (1)\n{}\n", roff(program.name()), roff(each->name()),
                         roff(each->help()));
    }
  }
  if (const auto positionals = page.positionals(); !positionals.empty()) {
    out += ".SH ARGUMENTS\n";
    for (const OptionFacts& option : positionals) out += roff_positional(option);
  }
  out += ".SH OPTIONS\n";
  for (const OptionFacts& option : page.options()) out += roff_option(option);
  return out + roff_sections(sections_of(subcommand != nullptr ? page.name() : ""), page.footer());
}

// --- Completions -------------------------------------------------------------------------------

std::string bash_completion(const Command& program) {
  std::vector<std::string> commands;
  std::string values, options;
  for (const Command* each : visible_subcommands(program)) {
    commands.push_back(each->name());
    std::vector<std::string> names;
    for (const OptionFacts& option : each->options()) {
      names.insert(names.end(), option.names.begin(), option.names.end());
      if (option.choices.empty()) continue;
      for (const std::string& name : option.names) {
        values +=
            fmt::format("    {}:{}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                        each->name(), name, joined(option.choices));
      }
    }
    options += fmt::format("      {}) options=\"{}\" ;;\n", each->name(), joined(names));
  }
  return fmt::format(R"(# Completion of rpcrdma for bash; made by `rpcrdma completion bash`.
_rpcrdma() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} options=
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W "{}" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}}:$before in
{}  esac
  if [[ $word == -* ]]; then
    case ${{COMP_WORDS[1]}} in
{}    esac
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  fi
}}
complete -o default -F _rpcrdma rpcrdma
)",
                     joined(commands), values, options);
}

std::string zsh_completion(const Command& program) {
  const auto quoted = [](std::string text) {
    for (const char* special : {"[", "]", ":"}) {
      text = replaced(text, special, std::string("\\") + special);
    }
    return replaced(text, "'", "'\\''");
  };
  std::string commands, cases;
  for (const Command* each : visible_subcommands(program)) {
    commands += fmt::format("  '{}:{}'\n", each->name(), quoted(each->help()));
    cases += fmt::format("  {}) _arguments", each->name());
    for (const OptionFacts& option : each->options()) {
      std::string value = option.takes_value ? ":value:_files" : "";
      if (!option.choices.empty()) value = fmt::format(":value:({})", joined(option.choices));
      for (const std::string& name : option.names) {
        cases += fmt::format(" \\\n    '{}[{}]{}'", name, quoted(option.help), value);
      }
    }
    cases += " \\\n    '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef rpcrdma
# Completion of rpcrdma for zsh; made by `rpcrdma completion zsh`.
local -a commands
commands=(
{})
if (( CURRENT == 2 )); then
  _describe command commands
  return
fi
shift words
(( CURRENT-- ))
case $words[1] in
{}esac
)",
                     commands, cases);
}

// --- Subcommands -------------------------------------------------------------------------------

namespace {

struct PageSettings {
  const Command* program = nullptr;
  std::string name;  // of a subcommand, or of a shell
};

void print_help(PageSettings& settings) {
  const Command* const subcommand = find_subcommand(*settings.program, settings.name);
  fmt::print("{}", (subcommand != nullptr ? *subcommand : *settings.program).help_page());
}

void print_completion(PageSettings& settings) {
  fmt::print("{}", settings.name == "bash" ? bash_completion(*settings.program)
                                           : zsh_completion(*settings.program));
}

// Prints a line for each option: the name of the command, a tab, and the names of the option.
// `above` stands in front of the names of subcommands.
void print_options_of(const Command& command, const std::string& name, const std::string& above) {
  for (const OptionFacts& option : command.options()) {
    fmt::print("{}\t{}\n", name, joined(option.names, ","));
  }
  for (const auto& each : command.subcommands()) {
    const std::string below = above + each->name();
    print_options_of(*each, below, below + " ");
  }
}

void print_options(PageSettings& settings) {
  print_options_of(*settings.program, settings.program->name(), "");
}

void print_manual(PageSettings& settings) {
  const Command& program = *settings.program;
  fmt::print("{}", settings.name == kSettingsPage
                       ? settings_page(*find_subcommand(program, "serve"))
                       : manual_page(program, find_subcommand(program, settings.name)));
}

}  // namespace

void add_help(Command& program) {
  Command& help = program.add_subcommand("help", "show what a command does, as its --help");
  PageSettings& settings = help.on_call(print_help);
  settings.program = &program;
  help.add({{"COMMAND", &settings.name, "the command (default: the list of all)"}});
}

void add_manual(Command& program) {
  Command& completion =
      program.add_subcommand("completion", "print a script that completes this command in a shell");
  PageSettings& shell = completion.on_call(print_completion);
  shell.program = &program;
  completion.add(
      {{"SHELL", &shell.name, "bash or zsh", {.choices = "bash|zsh", .is_required = true}}});
  completion.set_footer("Example: source <(rpcrdma completion bash)");
  Command& manual = program.add_subcommand("manual", "print a manual page in man(7)");
  manual.hide();
  PageSettings& page = manual.on_call(print_manual);
  page.program = &program;
  manual.add(
      {{"COMMAND", &page.name, "the subcommand, or serve.toml; without one, the page of all"}});
  Command& options = program.add_subcommand("options", "print each option of each command");
  options.hide();
  options.on_call(print_options).program = &program;
}

}  // namespace rpcrdma::tools
