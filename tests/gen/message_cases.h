// Reads and writes the cases of errors/TOPIC.cases: texts that rpcrdma-gen is given, and every byte
// of the messages that it answers. A case looks like this:
//
//   === NAME
//   const A = B;
//   ---
//   NAME.x:1:11: error: ...
//
// A text that ends without a line break has "--- without the last line break" behind it. Texts and
// messages may hold any byte; no line of them begins with one of the two signs.
#ifndef RPCRDMA_TESTS_GEN_MESSAGE_CASES_H
#define RPCRDMA_TESTS_GEN_MESSAGE_CASES_H

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rpcrdma::gen {

struct MessageCase {
  std::string name;
  std::string text;
  std::optional<std::string> messages;  // none if the case ends in its text
};

constexpr std::string_view kBeginOfCase = "=== ";
constexpr std::string_view kEndOfText = "---\n";
constexpr std::string_view kEndOfCutText = "--- without the last line break\n";

// Returns the cases of a file. The text in front of the first case becomes a case without a name.
inline std::vector<MessageCase> parse_cases(std::string_view content) {
  std::vector<MessageCase> cases;
  while (!content.empty()) {
    const std::string_view line =
        content.substr(0, std::min(content.find('\n'), content.size() - 1) + 1);
    content.remove_prefix(line.size());
    if (line.starts_with(kBeginOfCase) && line.ends_with('\n')) {
      const std::string_view name = line.substr(kBeginOfCase.size());
      cases.push_back({std::string(name.substr(0, name.size() - 1)), {}, std::nullopt});
      continue;
    }
    if (cases.empty()) cases.emplace_back();
    MessageCase& last = cases.back();
    if (last.messages) {
      *last.messages += line;
    } else if (line == kEndOfText) {
      last.messages.emplace();
    } else if (line == kEndOfCutText && !last.text.empty()) {
      last.text.pop_back();
      last.messages.emplace();
    } else {
      last.text += line;
    }
  }
  return cases;
}

// Returns the content of a file with these cases.
inline std::string format_cases(const std::vector<MessageCase>& cases) {
  std::string content;
  for (const MessageCase& one : cases) {
    const bool is_cut = !one.text.ends_with('\n') && !one.text.empty();
    content += std::string(kBeginOfCase) + one.name + "\n" + one.text;
    content += is_cut ? "\n" + std::string(kEndOfCutText) : std::string(kEndOfText);
    content += one.messages.value_or("");
  }
  return content;
}

// Returns what is wrong with the cases of each file: a sentence for each mistake.
inline std::vector<std::string> flaws_of_cases(
    const std::map<std::string, std::vector<MessageCase>>& files) {
  std::vector<std::string> flaws;
  std::map<std::string, std::string> known;  // name of a case: its file
  for (const auto& [file, cases] : files) {
    if (cases.empty()) flaws.push_back(file + " has no cases");
    for (const MessageCase& one : cases) {
      const bool is_word = std::all_of(one.name.begin(), one.name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
      });
      if (one.name.empty() || !is_word)
        flaws.push_back(file + " has a case named '" + one.name + "'");
      if (!one.messages) flaws.push_back(file + ": " + one.name + " has no messages");
      const auto [first, is_new] = known.emplace(one.name, file);
      if (!is_new) flaws.push_back(file + ": " + one.name + " is in " + first->second + " already");
    }
  }
  return flaws;
}

}  // namespace rpcrdma::gen

#endif  // RPCRDMA_TESTS_GEN_MESSAGE_CASES_H
