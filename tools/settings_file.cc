#include "tools/settings_file.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>

#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

constexpr std::size_t kFileMax = 1U << 20U;  // bytes

// Returns a value as a command line has it; nullopt if an option cannot have such a value.
std::optional<std::string> word_of(const toml::node& node) {
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* const fraction = node.as_floating_point())
    return fmt::format("{}", fraction->get());
  if (const auto* const truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

std::string at_line(const toml::source_region& where, std::string_view what) {
  return fmt::format("line {}: {}", where.begin.line, what);
}

// No word of a command line has a byte of zero, at which the system would end a name.
bool has_zero(std::string_view word) {
  return word.find('\0') != std::string_view::npos;
}

Expected<Setting, std::string> setting_of(const toml::key& key, const toml::node& node) {
  Setting made{std::string(key.str()), {}, key.source().begin.line};
  const auto refuse = [&](const toml::node& at) {
    const bool is_table = at.is_table() || at.is_array_of_tables();
    return Unexpected<std::string>(at_line(
        at.source(), is_table
                         ? fmt::format("'{}' is a table; settings stand outside of tables, as "
                                       "key = value",
                                       made.name)
                         : fmt::format("'{}' has a value that is neither text, a number, true or "
                                       "false, nor a list of these",
                                       made.name)));
  };
  const auto add = [&](const toml::node& each) -> std::optional<Unexpected<std::string>> {
    auto word = word_of(each);
    if (!word) return refuse(each);
    if (has_zero(*word) || has_zero(made.name)) {
      return Unexpected<std::string>(at_line(
          each.source(), "a setting has a byte of zero, which no word of a command line has"));
    }
    made.values.push_back(std::move(*word));
    return std::nullopt;
  };
  const toml::array* const list = node.as_array();
  if (list == nullptr || node.is_array_of_tables()) {
    if (auto trouble = add(node)) return std::move(*trouble);
    return made;
  }
  for (const toml::node& each : *list) {
    if (auto trouble = add(each)) return std::move(*trouble);
  }
  return made;
}

}  // namespace

Expected<std::vector<Setting>, std::string> parse_settings(std::string_view text) {
  std::vector<Setting> settings;
  try {
    const toml::table table = toml::parse(text);
    for (const auto& [key, node] : table) {
      auto setting = setting_of(key, node);
      if (!setting) return Unexpected<std::string>(std::move(setting.error()));
      settings.push_back(std::move(*setting));
    }
  } catch (const toml::parse_error& error) {
    return Unexpected<std::string>(at_line(error.source(), error.description()));
  }
  std::ranges::stable_sort(settings, {}, &Setting::line);
  return settings;
}

Expected<std::vector<Setting>, std::string> read_settings(const std::string& path) {
  const auto fail = [&path](const std::string& what) {
    return Unexpected<std::string>(fmt::format("{}: {}", path, what));
  };
  const auto text = text_of_file(path, kFileMax);
  if (!text) return fail(text.error());
  auto settings = parse_settings(*text);
  if (!settings) return Unexpected<std::string>(fmt::format("{}, {}", path, settings.error()));
  return settings;
}

}  // namespace rpcrdma::tools
