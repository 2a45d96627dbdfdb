// Describes the command line of a program and its subcommands by a table. Only options.cc includes
// CLI11, which reads the command line: its header has four times the lines of all of these.
#ifndef RPCRDMA_TOOLS_OPTIONS_H_
#define RPCRDMA_TOOLS_OPTIONS_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "tools/numbers.h"

namespace rpcrdma::tools {

// The variable in which an option stores its value. Until then it has the default. A bool is a
// flag, which takes no value; a vector takes several values.
using Value = std::variant<bool*, int*, std::uint16_t*, std::uint32_t*, std::uint64_t*, double*,
                           std::string*, std::vector<std::string>*, std::optional<std::uint16_t>*>;

// The least and the greatest number that an option takes.
struct Range {
  enum class Type : std::uint8_t { kNone, kInt, kUnsigned, kDouble };

  constexpr Range() = default;  // no limits
  template <class T>
  constexpr Range(T least_value, T most_value)
      : type(std::is_floating_point_v<T> ? Type::kDouble
             : std::is_signed_v<T>       ? Type::kInt
                                         : Type::kUnsigned),
        least(static_cast<double>(least_value)),
        most(static_cast<double>(most_value)) {}

  Type type = Type::kNone;
  double least = 0, most = 0;  // below 2^53
};

inline constexpr int kMany = 1 << 29;  // values of an option: any number

// Rules that an option's values must follow. `needs` and `excludes` name options that were added
// before this one.
struct Rules {
  const char* choices = nullptr;  // "on|off": the option takes one of these
  Range range{};
  bool takes_units = false;  // a number may have a unit: "64k" means 65536
  // Returns what is wrong with a value; empty: nothing.
  std::string (*check)(const std::string& value) = nullptr;
  const char* checked_as = nullptr;  // names the check in the help, such as FILE
  const char* type = nullptr;        // replaces TEXT in the help
  const char* needs = nullptr;       // "--a|--b": only with each of these
  const char* excludes = nullptr;    // "--a|--b": with none of these
  bool is_required = false;
  bool hides_default = false;  // in the help, where it would be shown
  // Number of values that a vector takes. 0 means the default, which is at least one.
  int least_values = 0, most_values = 0;
  char separator = '\0';     // separates the values of a vector that stand in one word
  bool* is_given = nullptr;  // becomes true if the command line has the option
};

// A line of the table.
struct Option {
  // "-f,--force"; a name without a dash is that of a positional. An option that begins with "-h,"
  // takes -h from the help, which is --help alone then.
  const char* names;
  Value value;  // outlives the command
  const char* help;
  Rules rules{};
};

// The help's description of an option, from which manual pages and completions are made.
struct OptionFacts {
  std::vector<std::string> names;  // with their dashes; a positional has one name
  std::string help;
  std::string default_text;  // empty: not shown
  std::vector<std::string> choices;
  bool is_required;
  bool takes_value;
};

// A program, or one of its subcommands.
class Command {
 public:
  Command(const char* name, const char* help);  // a program
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // The texts and the values outlive the command.
  void add(std::initializer_list<Option> options);
  // Adds a flag that prints the text and ends the program.
  void add_version_flag(const char* names, const std::string& text);
  void set_footer(const char* text);
  // Adds a subcommand that lives as long as this command, which then requires one.
  Command& add_subcommand(const char* name, const char* help);
  // Leaves the subcommand out of the help.
  void hide();
  // The option that this names, which the command has, names a file of settings (settings_file.h).
  // Its keys are the command's other options but those of `not_in_file`; an option on the command
  // line replaces that of the file.
  void set_settings_option(const char* name, std::initializer_list<const char*> not_in_file);
  // Makes the settings that `function` takes. They live as long as this command; run() passes them
  // on.
  template <class Settings>
  Settings& on_call(void (*function)(Settings&));

  // Reads a command line. If the program has to end, returns its exit status: 0 after --help and
  // its like, or 2 after wrong usage; all output has been printed. An error is one line: "rpcrdma:
  // --port takes a whole number from 0 to 65535, not 'x'; `rpcrdma serve --help` …".
  std::optional<int> parse(int argc, const char* const* argv);
  // Does the same for words behind the name of the program, but prints nothing. Returns the error's
  // line, without "rpcrdma: ", or nothing.
  std::string read(std::vector<std::string> words);
  // Calls what on_call() named for the subcommand that the command line has.
  void run();
  // Returns whether the command line has the option, such as "--port".
  bool is_given(const std::string& option) const;
  // Returns the options and positionals of the command line in words that mean the same.
  std::vector<std::string> given() const;

  // Returns the words that the program got, for a subcommand with a file of settings.
  const std::vector<std::string>& words() const;

  std::string name() const;
  std::string help() const;    // one line
  std::string footer() const;  // may be empty
  std::string help_page() const;
  bool is_hidden() const;
  const std::vector<std::unique_ptr<Command>>& subcommands() const;
  std::vector<OptionFacts> options() const;
  std::vector<OptionFacts> positionals() const;

 private:
  struct Parser;  // of CLI11
  struct Action {
    virtual ~Action() = default;
    virtual void run() = 0;
  };
  template <class Settings>
  struct ActionWith final : Action {
    explicit ActionWith(void (*callee)(Settings&)) : function(callee) {}
    void run() override { function(settings); }

    void (*function)(Settings&);
    Settings settings;
  };

  explicit Command(std::unique_ptr<Parser> parser);
  void make_options(
      const std::vector<std::string_view>& words);  // of the subcommands that they name
  void note_given() const;
  void take(std::vector<std::string> words);
  std::string problem_with(const void* parse_error) const;  // CLI11's, which only options.cc knows
  // `dashes`: those that the word begins with, and those of the answer.
  std::string nearest_option(std::string_view word, std::string_view dashes) const;
  // Says what the command line has that this command does not take; empty: nothing.
  std::string unexpected() const;
  // Puts the settings of the file that the words name in front of them; they follow the name of
  // this command. Throws if there is something wrong with the file.
  void add_settings(std::vector<std::string>& words) const;
  // Returns the subcommand of subcommands that the command line names, or this command.
  const Command& called() const;
  std::vector<OptionFacts> facts(bool positional) const;

  const std::unique_ptr<Parser> parser_;
  std::vector<std::unique_ptr<Command>> subcommands_;
  std::unique_ptr<Action> action_;
};

template <class Settings>
Settings& Command::on_call(void (*function)(Settings&)) {
  auto action = std::make_unique<ActionWith<Settings>>(function);
  Settings& settings = action->settings;
  action_ = std::move(action);
  return settings;
}

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_OPTIONS_H_
