#include "tools/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <utility>

#include "tools/settings_file.h"
#include "tools/text.h"

namespace rpcrdma::tools {

struct Command::Parser {
  std::unique_ptr<CLI::App> program;  // null for a subcommand
  CLI::App* app;
  std::vector<std::pair<const CLI::Option*, bool*>> noted;
  // Options that CLI11 does not have yet. It spends more on those of twenty subcommands than the
  // rest of a short command takes.
  std::vector<Option> awaited;
  std::string settings_option;           // names a file of settings; empty: there is none
  std::vector<std::string> not_in_file;  // options
  // The options that the file has set: each with the place, "FILE, line 3".
  std::map<std::string, std::string> places;
  std::vector<std::string> words;  // before the settings of the file were added

  void make_options();
  // Says what is wrong with the value of an option, and where that stands.
  std::string with_place(const std::string& problem) const;
  void make(const Option& option);
};

namespace {

static_assert(kMany == CLI::detail::expected_max_vector_size);

std::vector<std::string> words_of(const char* text) {
  return text == nullptr ? std::vector<std::string>() : CLI::detail::split(text, '|');
}

// CLI11 takes "[a,b]" for a list of two values, and "[]" for one of none. A byte of zero at the
// end, which no word of a command line has, keeps it from that.
constexpr std::string_view kGuarded("]\0", 2);

std::string guarded(std::string word) {
  if (word.ends_with(']')) word += '\0';
  return word;
}

std::string unguarded(std::string word) {
  if (word.ends_with(kGuarded)) word.pop_back();
  return word;
}

std::string remove_guard(std::string& word) {
  word = unguarded(std::move(word));
  return {};
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

Bounds bounds_of(const Range& range) {
  return {static_cast<std::int64_t>(range.least), static_cast<std::uint64_t>(range.most)};
}

template <class T>
Bounds bounds_of() {
  return {static_cast<std::int64_t>(std::numeric_limits<T>::min()),
          static_cast<std::uint64_t>(std::numeric_limits<T>::max())};
}

// The parser's own checks say "Could not convert", print all units, and take nan as within every
// range; their descriptions are part of what the help says.
template <class T>
void add_number_check(CLI::Option& option, const Rules& rules) {
  const Range range = rules.range;
  const bool has_range = range.type != Range::Type::kNone;
  std::string description = rules.takes_units ? CLI::AsSizeValue(false).get_description() : "";
  if (has_range) {
    description += (description.empty() ? "" : ":") + check_of(range).get_description();
  }
  const auto check = [range, has_range, takes_units = rules.takes_units](std::string& text) {
    if constexpr (std::is_floating_point_v<T>) {
      constexpr T kMost = std::numeric_limits<T>::max();
      (void)takes_units;
      return problem_with_fraction(text, has_range ? range.least : -kMost,
                                   has_range ? range.most : kMost);
    } else {
      return read_whole(text, has_range ? bounds_of(range) : bounds_of<T>(), takes_units);
    }
  };
  option.transform(CLI::Validator(check, std::move(description)));
}

std::string problem_with_flag(std::string& text) {
  if (text == "true" || text == "false") return {};
  return fmt::format("takes no value but true and false, not '{}'", text);
}

template <class T>
CLI::Option* add_value(CLI::App& app, const Option& option, T* value) {
  if constexpr (std::is_same_v<T, bool>) {
    CLI::Option* const made = app.add_flag(option.names, *value, option.help);
    made->transform(CLI::Validator(problem_with_flag, ""));
    return made;
  } else {
    CLI::Option* const made = app.add_option(option.names, *value, option.help);
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      if (!option.rules.hides_default) made->capture_default_str();
    }
    if constexpr (std::is_arithmetic_v<T>) {
      add_number_check<T>(*made, option.rules);
    } else if constexpr (std::is_same_v<T, std::optional<std::uint16_t>>) {
      add_number_check<std::uint16_t>(*made, option.rules);
    }
    return made;
  }
}

CLI::Option* add_to(CLI::App& app, const Option& option) {
  return std::visit([&](auto* value) { return add_value(app, option, value); }, option.value);
}

void add_checks(CLI::Option& option, const Rules& rules) {
  if (rules.choices != nullptr) {
    const std::vector<std::string> choices = words_of(rules.choices);
    const auto check = [choices](const std::string& text) {
      if (std::ranges::count(choices, text) > 0) return std::string();
      const std::vector<std::string> first(choices.begin(), choices.end() - 1);
      return fmt::format("takes {} or {}, not '{}'", fmt::join(first, ", "), choices.back(), text);
    };
    option.check(check, CLI::IsMember(choices).get_description());
  }
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

std::string quoted(const std::vector<std::string>& words) {
  return fmt::format("'{}'", fmt::join(words, "', '"));
}

// Says how many values an option has, and how many it takes.
std::string miscounted(const CLI::App& app, const std::string& name) {
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr) return name + " has too many or too few values";
  const auto count = option->results().size();
  const auto most = static_cast<std::size_t>(option->get_items_expected_max());
  if (count > most) {
    return fmt::format("{} has {} values, and takes {}", name, count,
                       most == 1 ? "one" : fmt::format("at most {}", most));
  }
  const int least = option->get_items_expected_min();
  if (least <= 1) return name + " needs a value";
  return fmt::format("{} needs at least {} values, and has {}", name, least, count);
}

// "NAME: what is wrong", or "NAME takes …, not …" of our own checks.
std::string explained(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos) return text;
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return miscounted(app, text.substr(0, colon));
  }
  if (text.compare(colon + 2, 6, "takes ") == 0) text.erase(colon, 1);
  return text;
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
  made->transform(
      CLI::Validator(remove_guard, ""));  // before all checks: the last one is the first
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

void Command::set_settings_option(const char* name,
                                  std::initializer_list<const char*> not_in_file) {
  parser_->settings_option = name;
  parser_->not_in_file.assign(not_in_file.begin(), not_in_file.end());
}

std::optional<int> Command::parse(int argc, const char* const* argv) {
  constexpr int kWrongUsage = 2;
  try {
    take({argv + 1, argv + argc});
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return parser_->app->exit(error);  // --help
    const std::string text = fmt::format("{}: {}", name(), problem_with(&error));
    std::fputs(failure_line(text).c_str(), stderr);
    return kWrongUsage;
  }
  return std::nullopt;
}

std::string Command::read(std::vector<std::string> words) {
  try {
    take(std::move(words));
  } catch (const CLI::ParseError& error) {
    return problem_with(&error);
  }
  return {};
}

void Command::take(std::vector<std::string> words) {
  make_options({words.begin(), words.end()});
  for (const auto& each : subcommands_) {
    if (!words.empty() && words.front() == each->name()) each->add_settings(words);
  }
  std::ranges::transform(words, words.begin(), guarded);
  std::ranges::reverse(words);  // as the parser wants them
  parser_->app->parse(std::move(words));
  note_given();
}

std::string Command::problem_with(const void* parse_error) const {
  const auto& error = *static_cast<const CLI::ParseError*>(parse_error);
  // The file's errors say where they are.
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) return error.what();
  const Command& command = called();
  const CLI::App& app = *command.parser_->app;
  // An option that is mistyped comes before what is missing because of that.
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  std::string text = is_missing || is_extra ? command.unexpected() : "";
  const std::string name = full_name(app);
  if (text.empty() && is_missing && !command.subcommands_.empty()) {
    text = fmt::format("`{}` needs a command", name);
  }
  if (text.empty()) text = command.parser_->with_place(explained(app, error));
  return fmt::format("{}; `{} --help` says what it takes", text, name);
}

std::string Command::Parser::with_place(const std::string& problem) const {
  const auto found = places.find(problem.substr(0, problem.find_first_of(" :")));
  return found == places.end() ? problem : fmt::format("{}: {}", found->second, problem);
}

void Command::add_settings(std::vector<std::string>& words) const {
  Parser& parser = *parser_;
  parser.places.clear();
  parser.words = words;
  const auto has_name = [](const std::string& word, const std::string& name) {
    return word == name || word.starts_with(name + "=");
  };
  const std::string& option = parser.settings_option;
  const auto found = std::ranges::find_if(
      words, [&](const auto& word) { return !option.empty() && has_name(word, option); });
  if (found == words.end()) return;
  std::string path = found->size() > option.size() ? found->substr(option.size() + 1) : "";
  if (*found == option && found + 1 != words.end()) path = found[1];
  auto settings = read_settings(path);
  if (!settings) throw CLI::ConfigError(fmt::format("{} {}", option, settings.error()));
  std::vector<std::string> added;
  for (const Setting& each : *settings) {
    const std::string name = "--" + each.name, place = fmt::format("{}, line {}", path, each.line);
    if (std::ranges::count(parser.not_in_file, name) > 0) {
      throw CLI::ConfigError(fmt::format("{}: '{}' is for the command line", place, each.name));
    }
    const CLI::Option* const taker = parser.app->get_option_no_throw(name);
    if (taker == nullptr || name == "--help") {
      throw CLI::ConfigError(fmt::format("{}: there is no setting '{}'{}", place, each.name,
                                         nearest_option(each.name, "")));
    }
    if (std::ranges::any_of(words, [&](const auto& word) { return has_name(word, name); }))
      continue;
    // CLI11 would take the next setting for the value.
    if (std::ranges::count(each.values, "") > 0) {
      throw CLI::ConfigError(
          fmt::format("{}: '{}' is empty; leave it out for its default", place, each.name));
    }
    // A flag that is not set is as if the file did not name it: no rule applies to it.
    const bool is_flag = taker->get_items_expected_max() == 0;
    if (is_flag && each.values == std::vector<std::string>{"false"}) continue;
    parser.places[name] = place;
    for (const std::string& value : each.values) added.push_back(fmt::format("{}={}", name, value));
  }
  words.insert(words.begin() + 1, added.begin(), added.end());
}

const Command& Command::called() const {
  for (const auto& each : subcommands_) {
    if (each->parser_->app->parsed()) return each->called();
  }
  return *this;
}

std::string Command::nearest_option(std::string_view word, std::string_view dashes) const {
  if (!word.starts_with(dashes)) return {};
  std::vector<std::string> names;
  for (const OptionFacts& option : options()) {
    for (const std::string& name : option.names) {
      if (name.starts_with("--") && name != "--help") names.push_back(name.substr(2));
    }
  }
  const std::string meant = nearest(word.substr(dashes.size()), names);
  return meant.empty() ? "" : fmt::format(" (did you mean '{}{}'?)", dashes, meant);
}

std::string Command::unexpected() const {
  std::vector<std::string> options, words;
  const CLI::App* const own = parser_->app;
  // The parser hands words behind "--" that nobody takes to the command above.
  for (const CLI::App* app = own; app != nullptr; app = app->get_parent()) {
    bool is_word = app != own;
    for (const std::string& each : app->remaining()) {
      const std::string word = unguarded(each);
      if (word == "--") {
        is_word = true;
      } else if (word.size() > 1 && word[0] == '-' && !is_word) {
        options.push_back(word.substr(0, word.find('=')));
      } else {
        words.push_back(word);
      }
    }
  }
  const std::string name = full_name(*parser_->app);
  if (!options.empty()) {
    return fmt::format("`{}` has no option{} {}{}", name, options.size() == 1 ? "" : "s",
                       quoted(options), nearest_option(options.front(), "--"));
  }
  if (words.empty()) return {};
  if (subcommands_.empty()) return fmt::format("`{}` does not expect {}", name, quoted(words));
  std::vector<std::string> names;
  for (const auto& each : subcommands_) {
    if (!each->is_hidden()) names.push_back(each->name());
  }
  const std::string meant = nearest(words.front(), names);
  return fmt::format("`{}` has no command '{}'{}", name, words.front(),
                     meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant));
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

bool Command::is_given(const std::string& option) const {
  const CLI::Option* const made = parser_->app->get_option_no_throw(option);
  return made != nullptr && made->count() > 0;
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

const std::vector<std::string>& Command::words() const {
  return parser_->words;
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

}  // namespace rpcrdma::tools
