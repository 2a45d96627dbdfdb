#include "gen/names.h"

#include <algorithm>
#include <array>
#include <set>

#include "gen/c_names.h"
#include "gen/letters.h"

namespace rpcrdma::gen {
namespace {

// C++20's keywords and alternative words, and the names that generated code uses by itself.
constexpr std::array<std::string_view, 111> kReserved = {
    "alignas",       "alignof",      "and",
    "and_eq",        "asm",          "auto",
    "bitand",        "bitor",        "bool",
    "break",         "case",         "catch",
    "char",          "char8_t",      "char16_t",
    "char32_t",      "class",        "compl",
    "concept",       "const",        "consteval",
    "constexpr",     "constinit",    "const_cast",
    "continue",      "co_await",     "co_return",
    "co_yield",      "decltype",     "default",
    "delete",        "do",           "double",
    "dynamic_cast",  "else",         "enum",
    "explicit",      "export",       "extern",
    "false",         "float",        "for",
    "friend",        "goto",         "if",
    "inline",        "int",          "long",
    "mutable",       "namespace",    "new",
    "noexcept",      "not",          "not_eq",
    "nullptr",       "operator",     "or",
    "or_eq",         "private",      "protected",
    "public",        "register",     "reinterpret_cast",
    "requires",      "return",       "short",
    "signed",        "sizeof",       "static",
    "static_assert", "static_cast",  "struct",
    "switch",        "template",     "this",
    "thread_local",  "throw",        "true",
    "try",           "typedef",      "typeid",
    "typename",      "union",        "unsigned",
    "using",         "virtual",      "void",
    "volatile",      "wchar_t",      "while",
    "xor",           "xor_eq",       "rpcrdma",
    "std",           "encode",       "decode",
    "measure",       "encoded_size", "to_string",
    "random_detail", "fields",       "is_defined",
    "randomize",     "linux",        "unix",
    "walk",          "encode_node",  "decode_node",
    "measure_node",  "walk_node",    "visit_types"};

// Headers of C and of POSIX that lie in no folder, and those of Linux that programs include most.
constexpr auto kHeaders = std::to_array<std::string_view>(
    {"aio",     "alloca",   "argp",        "ar",        "assert",   "byteswap", "complex",
     "cpio",    "crypt",    "ctype",       "dirent",    "dlfcn",    "elf",      "endian",
     "envz",    "err",      "errno",       "error",     "execinfo", "fcntl",    "features",
     "fenv",    "float",    "fmtmsg",      "fnmatch",   "fstab",    "ftw",      "getopt",
     "glob",    "grp",      "iconv",       "ifaddrs",   "inttypes", "iso646",   "langinfo",
     "libgen",  "libintl",  "limits",      "link",      "locale",   "malloc",   "math",
     "memory",  "mntent",   "monetary",    "mqueue",    "ndbm",     "netdb",    "nl_types",
     "obstack", "paths",    "poll",        "pthread",   "pty",      "pwd",      "regex",
     "resolv",  "sched",    "search",      "semaphore", "setjmp",   "shadow",   "signal",
     "spawn",   "stdalign", "stdarg",      "stdatomic", "stdbool",  "stddef",   "stdint",
     "stdio",   "stdlib",   "stdnoreturn", "string",    "strings",  "stropts",  "syscall",
     "syslog",  "tar",      "termio",      "termios",   "tgmath",   "threads",  "time",
     "trace",   "ucontext", "ulimit",      "unistd",    "utime",    "utmp",     "utmpx",
     "values",  "wait",     "wchar",       "wctype",    "wordexp"});

using Names = std::set<std::string_view>;

Names names_in(std::string_view text) {
  Names names;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
    if (text.empty()) return names;
    const std::string_view name = text.substr(0, text.find_first_of(" \n"));
    names.insert(names.end(), name);
    text.remove_prefix(name.size());
  }
}

bool is_macro(std::string_view name) {
  static const Names names = names_in(kCMacros);
  return names.contains(name);
}

bool is_global(std::string_view name) {
  static const Names names = names_in(kCGlobals);
  return names.contains(name);
}

}  // namespace

std::string cpp_name(std::string_view name) {
  const bool reserved =
      std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end() || is_macro(name);
  return std::string(name) + (reserved ? "_" : "");
}

std::string type_name(std::string_view name) {
  // decode(reader, T&); and a member with the name of its class would be a constructor.
  const bool is_taken = name == "reader" || is_of_every_union(name);
  return is_taken ? std::string(name) + "_" : cpp_name(name);
}

std::string member_name(std::string_view name, std::string_view type_cpp_name) {
  std::string result = cpp_name(name);
  // The second is what WithReply adds to a type.
  if (result == type_cpp_name || result == "rpcrdma_reply_") result += '_';
  return result;
}

bool is_of_every_union(std::string_view name) {
  return name == "arm_of" || name == "set_void" || name == "rpcrdma_arm_" ||
         name == "rpcrdma_discriminant_";
}

std::string method_name(std::string_view procedure) {
  constexpr std::array<std::string_view, 8> kTaken = {
      "all_traits",       "call",  "check_credential", "kProgram", "kVersion", "rpcrdma_client_",
      "rpcrdma_dispatch", "traits"};
  const bool is_taken = std::find(kTaken.begin(), kTaken.end(), procedure) != kTaken.end();
  return is_taken ? std::string(procedure) + "_" : cpp_name(procedure);
}

bool is_namespace(std::string_view name) {
  if (is_global(name.substr(0, name.find("::")))) return false;
  while (true) {
    const std::size_t colons = name.find("::");
    const std::string_view part = name.substr(0, colons);
    if (part.empty() || !is_letter(part[0]) || !std::all_of(part.begin(), part.end(), is_word) ||
        cpp_name(part) != part) {
      return false;
    }
    if (colons == std::string_view::npos) return true;
    name.remove_prefix(colons + 2);
  }
}

std::string namespace_of(std::string_view stem) {
  std::string result;
  for (const char c : stem) result += is_word(c) ? c : '_';
  if (result.empty() || !is_letter(result[0])) result.insert(0, 1, '_');
  return is_global(result) ? result + "_" : cpp_name(result);
}

std::string file_stem(std::string_view stem) {
  const bool is_header = std::find(kHeaders.begin(), kHeaders.end(), stem) != kHeaders.end();
  return std::string(stem) + (is_header ? "_" : "");
}

}  // namespace rpcrdma::gen
