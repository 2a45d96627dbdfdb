#include "tools/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace rpcrdma::tools {

struct Command::Parser {
  std::unique_ptr<CLI::App> program;  // null for a subcommand
  CLI::App* app;
  std::vector<std::pair<const CLI::Option*, bool*>> noted;
  // Options that CLI11 does not have yet. It spends more on those of twenty subcommands than the
  // rest of a short command takes.
  std::vector<Option> awaited;

  void make_options();
  void make(const Option& option);
};

namespace {

static_assert(kMany == CLI::detail::expected_max_vector_size);

std::vector<std::string> words_of(const char* text) {
  return text == nullptr ? std::vector<std::string>() : CLI::detail::split(text, '|');
}

// The type is part of what the help says.
CLI::Validator check_of(const Range& range) {
  const double least = range.least, most = range.most;
  if (range.type == Range::Type::kDouble) return CLI::Range(least, most);
  if (range.type == Range::Type::kInt) {
    return CLI::Range(static_cast<int>(least), static_cast<int>(most));
  }
  return CLI::Range(static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most));
}

CLI::Option* add_to(CLI::App& app, const Option& option) {
  const auto add = [&]<class T>(T* value) {
    if constexpr (std::is_same_v<T, bool>) {
      return app.add_flag(option.names, *value, option.help);
    } else {
      CLI::Option* const made = app.add_option(option.names, *value, option.help);
      if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
        if (!option.rules.hides_default) made->capture_default_str();
      }
      return made;
    }
  };
  return std::visit(add, option.value);
}

void add_checks(CLI::Option& option, const Rules& rules) {
  if (rules.takes_units) option.transform(CLI::AsSizeValue(false));
  if (rules.choices != nullptr) option.check(CLI::IsMember(words_of(rules.choices)));
  if (rules.range.type != Range::Type::kNone) option.check(check_of(rules.range));
  if (rules.check != nullptr) {
    option.check(rules.check, rules.checked_as == nullptr ? "" : rules.checked_as);
  }
}

// The choices of "TEXT:{on,off}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{');
  const auto close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string full_name(const CLI::App& app) {
  const CLI::App* const above = app.get_parent();
  return above == nullptr ? app.get_name() : full_name(*above) + " " + app.get_name();
}

}  // namespace

Command::Command(const char* name, const char* help) : parser_(std::make_unique<Parser>()) {
  parser_->program = std::make_unique<CLI::App>(help, name);
  parser_->app = parser_->program.get();
}

Command::Command(std::unique_ptr<Parser> parser) : parser_(std::move(parser)) {}

Command::~Command() = default;

void Command::add(std::initializer_list<Option> options) {
  parser_->awaited.insert(parser_->awaited.end(), options);
}

void Command::Parser::make_options() {
  for (const Option& each : std::exchange(awaited, {})) make(each);
}

void Command::Parser::make(const Option& option) {
  const Rules& rules = option.rules;
  // An option that has -h leaves the help --help alone.
  if (std::string_view(option.names).starts_with("-h,")) {
    const std::string help = app->get_help_ptr()->get_description();
    app->set_help_flag("--help", help);
  }
  CLI::Option* const made = add_to(*app, option);
  add_checks(*made, rules);
  if (rules.type != nullptr) made->type_name(rules.type);
  if (rules.is_required) made->required();
  if (rules.most_values > 0) made->expected(rules.least_values, rules.most_values);
  if (rules.separator != '\0') made->delimiter(rules.separator)->allow_extra_args(false);
  for (const std::string& name : words_of(rules.needs)) made->needs(app->get_option(name));
  for (const std::string& name : words_of(rules.excludes)) made->excludes(app->get_option(name));
  if (rules.is_given != nullptr) noted.emplace_back(made, rules.is_given);
}

void Command::add_version_flag(const char* names, const std::string& text) {
  parser_->app->set_version_flag(names, text);
}

void Command::set_footer(const char* text) {
  parser_->app->footer(text);
}

Command& Command::add_subcommand(const char* name, const char* help) {
  auto parser = std::make_unique<Parser>();
  parser->app = parser_->app->add_subcommand(name, help);
  parser_->app->require_subcommand(1);
  subcommands_.push_back(std::unique_ptr<Command>(new Command(std::move(parser))));
  return *subcommands_.back();
}

void Command::hide() {
  parser_->app->group("");
}

std::optional<int> Command::parse(int argc, const char* const* argv) {
  constexpr int kWrongUsage = 2;
  make_options(std::vector<std::string_view>(argv, argv + argc));
  try {
    parser_->app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parser_->app->exit(error) == 0 ? 0 : kWrongUsage;
  }
  note_given();
  return std::nullopt;
}

void Command::make_options(const std::vector<std::string_view>& words) {
  parser_->make_options();
  for (const auto& each : subcommands_) {
    if (std::ranges::count(words, each->name()) > 0) each->make_options(words);
  }
}

void Command::note_given() const {
  for (const auto& [option, is_given] : parser_->noted) *is_given = option->count() > 0;
  for (const auto& each : subcommands_) each->note_given();
}

void Command::run() {
  for (const auto& each : subcommands_) {
    if (each->parser_->app->parsed()) return each->run();
  }
  if (action_) action_->run();
}

std::vector<std::string> Command::given() const {
  std::vector<std::string> words;
  const CLI::App& app = *parser_->app;
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (option->count() == 0) continue;
    if (option->get_positional()) {
      words.insert(words.end(), option->results().begin(), option->results().end());
      continue;
    }
    words.push_back(option->get_name());
    if (option->get_items_expected_max() == 0) continue;
    words.back() += "=" + CLI::detail::join(option->results(), ",");
  }
  return words;
}

std::string Command::name() const {
  return parser_->app->get_name();
}

std::string Command::help() const {
  return parser_->app->get_description();
}

std::string Command::footer() const {
  return parser_->app->get_footer();
}

// App::help() would print the page of the subcommand that the command line has.
std::string Command::help_page() const {
  parser_->make_options();
  const CLI::App& app = *parser_->app;
  return app.get_formatter()->make_help(&app, full_name(app), CLI::AppFormatMode::Normal);
}

bool Command::is_hidden() const {
  return parser_->app->get_group().empty();
}

const std::vector<std::unique_ptr<Command>>& Command::subcommands() const {
  return subcommands_;
}

std::vector<OptionFacts> Command::options() const {
  return facts(false);
}

std::vector<OptionFacts> Command::positionals() const {
  return facts(true);
}

std::vector<OptionFacts> Command::facts(bool positional) const {
  parser_->make_options();
  std::vector<OptionFacts> all;
  const auto is_wanted = [positional](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  };
  const CLI::App& app = *parser_->app;
  for (const CLI::Option* each : app.get_options(is_wanted)) {
    all.push_back({names_of(*each), each->get_description(), each->get_default_str(),
                   choices_of(*each), each->get_required(), each->get_items_expected_max() > 0});
  }
  return all;
}

std::optional<std::uint64_t> size_of(const std::string& text) {
  std::string number = text;
  try {
    if (!CLI::AsSizeValue(false)(number).empty()) return std::nullopt;
    return std::stoull(number);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace rpcrdma::tools
