#include "tools/manual.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "rpcrdma/version.h"
#include "tools/command.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

// --- What the parser knows ---------------------------------------------------------------------

std::vector<const CLI::App*> visible_subcommands(const CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* subcommand) { return !subcommand->get_group().empty(); });
}

// Null: the name is empty.
const CLI::App* find_subcommand(const CLI::App& app, const std::string& name) {
  if (name.empty()) return nullptr;
  std::vector<std::string> names;
  for (const CLI::App* each : visible_subcommands(app)) {
    if (each->get_name() == name) return each;
    names.push_back(each->get_name());
  }
  const std::string meant = nearest(name, names);
  fail(kUsage, fmt::format("there is no command '{}'{}; `rpcrdma help` lists them", name,
                           meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant)));
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional) {
  return app.get_options([positional](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  });
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// on and off, of "TEXT:{on,off}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{');
  const auto close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::string joined(const std::vector<std::string>& words, std::string_view separator = " ") {
  return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
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

std::string roff_option(const CLI::Option& option, bool positional) {
  std::string out = ".TP\n";
  if (positional) {
    out += fmt::format(".I {}\n", roff(option.get_name(true)));
  } else {
    out += fmt::format(".B {}", roff(joined(names_of(option), ", ")));
    const auto choices = choices_of(option);
    if (!choices.empty()) {
      out += roff(" " + joined(choices, "|"));
    } else if (takes_value(option)) {
      out += " VALUE";
    }
    out += "\n";
  }
  out += roff(option.get_description());
  if (!option.get_default_str().empty()) {
    out += roff(fmt::format(" (default: {})", option.get_default_str()));
  }
  return out + "\n";
}

std::string roff_synopsis(const CLI::App& app, const CLI::App* subcommand) {
  if (subcommand == nullptr) return ".B rpcrdma\n.I COMMAND\n[OPTIONS]\n";
  std::string out =
      fmt::format(".B {} {}\n[OPTIONS]\n", roff(app.get_name()), roff(subcommand->get_name()));
  for (const CLI::Option* option : options_of(*subcommand, true)) {
    const std::string name = roff(option->get_name(true));
    out += option->get_required() ? fmt::format(".I {}\n", name) : fmt::format("[{}]\n", name);
  }
  return out;
}

}  // namespace

std::string manual_page(const CLI::App& app, const CLI::App* subcommand) {
  const CLI::App& page = subcommand != nullptr ? *subcommand : app;
  const std::string name =
      subcommand != nullptr ? app.get_name() + "-" + page.get_name() : app.get_name();
  std::string out = fmt::format(
      ".TH {} 1 \"2026-11-21\" \"rpcrdma {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH "
      "SYNOPSIS\n",
      roff(replaced(name, "rpcrdma", "RPCRDMA")), kLibraryVersion, roff(name),
      roff(page.get_description()));
  out += roff_synopsis(app, subcommand);
  out += ".SH DESCRIPTION\n" + roff(page.get_description()) + ".\n";
  if (subcommand != nullptr && !visible_subcommands(page).empty()) {
    out += ".SH COMMANDS\n";
    for (const CLI::App* each : visible_subcommands(page)) {
      out += fmt::format(".TP\n.B {}\n{}\n", roff(each->get_name()), roff(each->get_description()));
    }
  }
  if (subcommand == nullptr) {
    out += ".SH COMMANDS\n";
    for (const CLI::App* each : visible_subcommands(app)) {
      out += fmt::format(".TP\n.BR {}\\-{} (1)\n{}\n", roff(app.get_name()), roff(each->get_name()),
                         roff(each->get_description()));
    }
  }
  if (const auto positionals = options_of(page, true); !positionals.empty()) {
    out += ".SH ARGUMENTS\n";
    for (const CLI::Option* option : positionals) out += roff_option(*option, true);
  }
  out += ".SH OPTIONS\n";
  for (const CLI::Option* option : options_of(page, false)) out += roff_option(*option, false);
  out += ".SH NOTES\n.nf\n" + roff(page.get_footer()) + "\n.fi\n";
  if (subcommand != nullptr) out += ".SH SEE ALSO\n.BR rpcrdma (1)\n";
  return out;
}

// --- Completions -------------------------------------------------------------------------------

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> commands;
  std::string values, options;
  for (const CLI::App* each : visible_subcommands(app)) {
    commands.push_back(each->get_name());
    std::vector<std::string> names;
    for (const CLI::Option* option : options_of(*each, false)) {
      const auto of_this = names_of(*option);
      names.insert(names.end(), of_this.begin(), of_this.end());
      const auto choices = choices_of(*option);
      if (choices.empty()) continue;
      for (const std::string& name : of_this) {
        values +=
            fmt::format("    {}:{}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                        each->get_name(), name, joined(choices));
      }
    }
    options += fmt::format("      {}) options=\"{}\" ;;\n", each->get_name(), joined(names));
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

std::string zsh_completion(const CLI::App& app) {
  const auto quoted = [](std::string text) {
    for (const char* special : {"[", "]", ":"}) {
      text = replaced(text, special, std::string("\\") + special);
    }
    return replaced(text, "'", "'\\''");
  };
  std::string commands, cases;
  for (const CLI::App* each : visible_subcommands(app)) {
    commands += fmt::format("  '{}:{}'\n", each->get_name(), quoted(each->get_description()));
    cases += fmt::format("  {}) _arguments", each->get_name());
    for (const CLI::Option* option : options_of(*each, false)) {
      const auto choices = choices_of(*option);
      const std::string value = !choices.empty()       ? fmt::format(":value:({})", joined(choices))
                                : takes_value(*option) ? std::string(":value:_files")
                                                       : std::string();
      for (const std::string& name : names_of(*option)) {
        cases += fmt::format(" \\\n    '{}[{}]{}'", name, quoted(option->get_description()), value);
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

void add_help(CLI::App& app) {
  auto name = std::make_shared<std::string>();
  CLI::App* help = app.add_subcommand("help", "show what a command does, as its --help");
  help->add_option("COMMAND", *name, "the command (default: the list of all)");
  help->callback([&app, name] {
    const CLI::App* const subcommand = find_subcommand(app, *name);
    // Not by help(), which means the subcommand that was called: this one.
    fmt::print("{}", subcommand != nullptr ? subcommand->help(app.get_name())
                                           : app.get_formatter()->make_help(
                                                 &app, app.get_name(), CLI::AppFormatMode::Normal));
  });
}

void add_manual(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "print a script that completes this command in a shell");
  completion->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  completion->footer("Example: source <(rpcrdma completion bash)");
  completion->callback([&app, shell] {
    fmt::print("{}", *shell == "bash" ? bash_completion(app) : zsh_completion(app));
  });
  auto name = std::make_shared<std::string>();
  CLI::App* manual = app.add_subcommand("manual", "print a manual page in man(7)")->group("");
  manual->add_option("COMMAND", *name, "the subcommand; without one, the page of all");
  manual->callback(
      [&app, name] { fmt::print("{}", manual_page(app, find_subcommand(app, *name))); });
}

}  // namespace rpcrdma::tools
