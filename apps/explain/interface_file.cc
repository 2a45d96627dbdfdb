#include "explain/interface_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "gen/ast.h"
#include "gen/check.h"
#include "gen/parser.h"
#include "rpcrdma/generated/text.h"
#include "rpcrdma/xdr.h"

namespace explaining {

using rpcrdma::Bytes;
using rpcrdma::gen::Arm;
using rpcrdma::gen::Basic;
using rpcrdma::gen::Declaration;
using rpcrdma::gen::Definition;
using rpcrdma::gen::Integer;
using rpcrdma::gen::Procedure;
using rpcrdma::xdr::Reader;

struct InterfaceFile::Parsed {
  std::string text;
  rpcrdma::gen::Source source;
  rpcrdma::gen::File file;

  const Definition* program(std::uint32_t number) const {
    for (const Definition& each : file.definitions) {
      const bool is_it =
          each.kind == Definition::Kind::kProgram && each.value.number.magnitude == number;
      if (is_it) return &each;
    }
    return nullptr;
  }
  const Procedure* procedure(std::uint32_t program_number, std::uint32_t version,
                             std::uint32_t number) const {
    const Definition* found = program(program_number);
    if (found == nullptr) return nullptr;
    for (const auto& each : found->versions) {
      if (each.number.number.magnitude != version) continue;
      for (const Procedure& procedure : each.procedures) {
        if (procedure.number.number.magnitude == number) return &procedure;
      }
    }
    return nullptr;
  }
};

namespace {

constexpr std::size_t kTextMax = 2000;
constexpr int kDepthMax = 40;
constexpr std::uint64_t kElementsMax = 32;  // that are shown; the others are read

// Returns the number modulo 2^64, as a discriminant of eight bytes has it.
std::uint64_t bits_of(const Integer& number) {
  return number.negative ? 0 - number.magnitude : number.magnitude;
}

// Returns the value of a char, which may come with its sign or without: 200 is -56. Any other word
// is no char, and stays as it is.
std::int32_t char_in(std::uint32_t word) {
  const auto value = static_cast<std::int32_t>(word);
  return value >= 0 && value <= 0xFF ? static_cast<std::int8_t>(value) : value;
}

// Returns the discriminant of a union whose bytes are these, modulo 2^64.
std::uint64_t discriminant_in(Bytes bytes, const Definition& of) {
  if (rpcrdma::gen::discriminant_size(of) == 8) {
    return std::uint64_t{rpcrdma::xdr::load_word(bytes.data())} << 32U |
           rpcrdma::xdr::load_word(bytes.data() + rpcrdma::xdr::kWordSize);
  }
  const std::uint32_t word = rpcrdma::xdr::load_word(bytes.data());
  const Basic type = rpcrdma::gen::resolved_basic(of.discriminant);
  const bool is_unsigned =
      type == Basic::kUint32 || type == Basic::kUint8 || type == Basic::kUint16;
  if (is_unsigned) return word;
  const bool is_char = type == Basic::kChar;
  return static_cast<std::uint64_t>(
      std::int64_t{is_char ? char_in(word) : static_cast<std::int32_t>(word)});
}

// Walks through a type and the bytes of one of its values.
class ValuePrinter {
 public:
  explicit ValuePrinter(Bytes bytes) : reader_(bytes) {}

  void declaration(const Declaration& of, int depth) {
    if (is_over(depth)) return;
    switch (of.shape) {
      case Declaration::Shape::kPlain:
        return of.is_list ? list(of, depth) : plain(of, depth);
      case Declaration::Shape::kFixed:
        if (of.is_bytes()) return bytes(reader_.opaque_fixed(narrow(of.size), ""));
        return elements(of, of.size, depth);
      case Declaration::Shape::kVariable:
        if (of.is_bytes() || of.is_text()) return counted(of);
        return variable(of, depth);
      case Declaration::Shape::kOptional:
        if (of.is_list) return list(of, depth);
        if (!reader_.boolean("optional")) {
          out_ += "none";
          return;
        }
        return plain(of, depth);
    }
  }
  void members(const std::vector<Declaration>& all, int depth) {
    out_ += '{';
    bool is_first = true;
    for (const Declaration& each : all) {
      if (each.is_void()) continue;
      if (!is_first) out_ += ", ";
      is_first = false;
      out_ += each.name.text.empty() ? "" : each.name.text + ": ";
      declaration(each, depth + 1);
      if (is_over(depth)) break;
    }
    out_ += '}';
  }
  std::string text() {
    if (!reader_.ok()) out_ += fmt::format(" … ({})", to_string(reader_.error().code));
    if (reader_.ok() && !reader_.rest().empty() && !is_cut_) {
      out_ += fmt::format(" and {} bytes more", reader_.rest().size());
    }
    return std::move(out_);
  }

 private:
  static std::uint32_t narrow(std::uint64_t size) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, 0xffffffff));
  }
  bool is_over(int depth) {
    if (out_.size() > kTextMax || depth > kDepthMax) is_cut_ = true;
    return is_cut_ || !reader_.ok();
  }
  void bytes(Bytes value) { rpcrdma::codec::append_bytes(out_, value); }

  // An item of which only the count is here went by a chunk.
  void counted(const Declaration& of) {
    const Bytes before = reader_.rest();
    const bool has_count = before.size() >= rpcrdma::xdr::kWordSize;
    const std::uint32_t size = has_count ? rpcrdma::xdr::load_word(before.data()) : 0;
    if (of.ddp && has_count && size > before.size() - rpcrdma::xdr::kWordSize) {
      reader_.skip(rpcrdma::xdr::kWordSize, "count");
      out_ += fmt::format("<{} bytes, not in the message>", size);
      return;
    }
    if (of.is_text()) {
      rpcrdma::codec::append_quoted(out_, reader_.string(narrow(of.size), "string"));
    } else {
      bytes(reader_.opaque(narrow(of.size), "opaque"));
    }
  }

  void variable(const Declaration& of, int depth) {
    const std::uint32_t count = reader_.u32("count");
    if (count > of.size) reader_.fail(rpcrdma::xdr::Errc::kOverLimit, "count");
    elements(of, count, depth);
  }

  void elements(const Declaration& of, std::uint64_t count, int depth) {
    out_ += '[';
    for (std::uint64_t i = 0; i < count && !is_over(depth); ++i) {
      if (i == kElementsMax) {
        out_ += fmt::format(", … {} in all", count);
        is_cut_ = true;
        break;
      }
      if (i != 0) out_ += ", ";
      plain(of, depth + 1);
    }
    out_ += ']';
  }

  // Nodes of which the link is the last member, which the checker has taken out.
  void list(const Declaration& of, int depth) {
    out_ += '[';
    bool is_first = true;
    bool follows = of.never_empty || reader_.boolean("list");
    for (std::uint64_t i = 0; follows && !is_over(depth); ++i) {
      if (!is_first) out_ += ", ";
      is_first = false;
      if (i == kElementsMax) {
        out_ += "…";
        is_cut_ = true;
        break;
      }
      plain(of, depth + 1);
      follows = reader_.boolean("list");
    }
    out_ += ']';
  }

  void plain(const Declaration& of, int depth) {
    if (is_over(depth)) return;
    if (of.type.target != nullptr) return definition(*of.type.target, depth + 1);
    basic(of.type.basic);
  }

  void basic(Basic type) {
    switch (type) {
      case Basic::kBool:
        out_ += reader_.boolean("bool") ? "true" : "false";
        return;
      case Basic::kChar:
        rpcrdma::codec::append_number(out_, std::int64_t{char_in(reader_.u32("char"))});
        return;
      case Basic::kInt8:
      case Basic::kInt16:
      case Basic::kInt32:
        rpcrdma::codec::append_number(out_, std::int64_t{reader_.i32("int")});
        return;
      case Basic::kUint8:
      case Basic::kUint16:
      case Basic::kUint32:
        rpcrdma::codec::append_number(out_, std::uint64_t{reader_.u32("unsigned")});
        return;
      case Basic::kInt64:
        rpcrdma::codec::append_number(out_, reader_.i64("hyper"));
        return;
      case Basic::kUint64:
        rpcrdma::codec::append_number(out_, reader_.u64("unsigned hyper"));
        return;
      case Basic::kFloat:
        rpcrdma::codec::append_number(out_, double{std::bit_cast<float>(reader_.u32("float"))});
        return;
      case Basic::kDouble:
        rpcrdma::codec::append_number(out_, std::bit_cast<double>(reader_.u64("double")));
        return;
      case Basic::kNone:
      case Basic::kVoid:
      case Basic::kString:
      case Basic::kOpaque:
        return;
    }
  }

  void definition(const Definition& of, int depth) {
    if (is_over(depth)) return;
    switch (of.kind) {
      case Definition::Kind::kEnum:
        return enumeration(of, reader_.i32("enum"));
      case Definition::Kind::kStruct:
        return members(of.members, depth);
      case Definition::Kind::kUnion:
        return choice(of, depth);
      case Definition::Kind::kTypedef:
        return declaration(of.alias, depth);
      case Definition::Kind::kConst:
      case Definition::Kind::kProgram:
        return;
    }
  }

  void enumeration(const Definition& of, std::int32_t number) {
    for (const auto& each : of.enumerators) {
      if (each.number == number) {
        out_ += each.name.text;
        return;
      }
    }
    rpcrdma::codec::append_number(out_, std::int64_t{number});
    reader_.fail(rpcrdma::xdr::Errc::kBadEnum, "enum");
  }

  void choice(const Definition& of, int depth) {
    const Bytes rest = reader_.rest();
    out_ += '{' + of.discriminant.name.text + ": ";
    declaration(of.discriminant, depth + 1);
    if (is_over(depth) || rest.size() < rpcrdma::gen::discriminant_size(of)) return;
    const std::uint64_t number = discriminant_in(rest, of);
    for (const Arm& arm : of.arms) {
      const bool is_it =
          arm.is_default || std::any_of(arm.cases.begin(), arm.cases.end(), [&](const auto& each) {
            return bits_of(each.number) == number;
          });
      if (!is_it) continue;
      if (!arm.declaration.is_void()) {
        out_ += ", " + arm.declaration.name.text + ": ";
        declaration(arm.declaration, depth + 1);
      }
      out_ += '}';
      return;
    }
    reader_.fail(rpcrdma::xdr::Errc::kBadEnum, "union");
  }

  Reader reader_;
  std::string out_;
  bool is_cut_ = false;
};

std::optional<std::string> content_of(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return file ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace

InterfaceFile::InterfaceFile(const std::string& path) : parsed_(std::make_unique<Parsed>()) {
  auto text = content_of(path);
  if (!text) {
    problem_ = path + " cannot be read";
    return;
  }
  parsed_->source.include(path, std::move(*text));
  const auto find = [](std::string_view from, std::string_view wanted,
                       bool) -> std::optional<rpcrdma::gen::Included> {
    const auto at = (std::filesystem::path(from).parent_path() / wanted).lexically_normal();
    auto found = content_of(at);
    if (!found) return std::nullopt;
    return rpcrdma::gen::Included{at.string(), std::move(*found)};
  };
  rpcrdma::gen::Diagnostics diagnostics;
  parsed_->file = parse(parsed_->source, diagnostics, find);
  if (diagnostics.ok()) check(parsed_->file, diagnostics);
  if (diagnostics.ok()) return;
  for (const auto& each : diagnostics.all()) problem_ += parsed_->source.render(each);
  while (problem_.ends_with('\n')) problem_.pop_back();
}

InterfaceFile::~InterfaceFile() = default;

const std::string& InterfaceFile::problem() const noexcept {
  return problem_;
}

std::string InterfaceFile::program_name(std::uint32_t program) const {
  const Definition* found = parsed_->program(program);
  return found == nullptr ? std::string() : found->name.text;
}

std::string InterfaceFile::procedure_name(std::uint32_t program, std::uint32_t version,
                                          std::uint32_t procedure) const {
  const Procedure* found = parsed_->procedure(program, version, procedure);
  return found == nullptr ? std::string() : found->name.text;
}

std::string InterfaceFile::text(std::uint32_t program, std::uint32_t version,
                                std::uint32_t procedure, Part part, Bytes bytes) const {
  const Procedure* found = parsed_->procedure(program, version, procedure);
  if (found == nullptr) return {};
  ValuePrinter printer(bytes);
  if (part == Part::kArguments) {
    printer.members(found->arguments, 0);
  } else if (found->result.is_void()) {
    return "void";
  } else {
    printer.declaration(found->result, 0);
  }
  return printer.text();
}

}  // namespace explaining
