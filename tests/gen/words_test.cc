// The words of .x files: numbers, tokens, and what names become in C++.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gen/compiler.h"
#include "gen/diagnostic.h"
#include "gen/lexer.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

std::optional<Integer> number(std::string_view text) {
  Integer value;
  if (!parse_integer(text, value)) return std::nullopt;
  return value;
}

TEST(Numbers, AreDecimalHexadecimalOrOctal) {
  EXPECT_EQ(number("0"), (Integer{false, 0}));
  EXPECT_EQ(number("42"), (Integer{false, 42}));
  EXPECT_EQ(number("0x2a"), (Integer{false, 42}));
  EXPECT_EQ(number("0X2A"), (Integer{false, 42}));
  EXPECT_EQ(number("052"), (Integer{false, 42}));
  EXPECT_EQ(number("00"), (Integer{false, 0}));
  EXPECT_EQ(number("0xfFfF"), (Integer{false, 0xffff}));
}

TEST(Numbers, MayBeNegative) {
  EXPECT_EQ(number("-42"), (Integer{true, 42}));
  EXPECT_EQ(number("-0x2a"), (Integer{true, 42}));
  EXPECT_EQ(number("-052"), (Integer{true, 42}));
  EXPECT_EQ(number("-0"), (Integer{false, 0})) << "there is one zero only";
}

TEST(Numbers, ReachFromMinus2To63To2To64Less1) {
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63U;
  EXPECT_EQ(number("18446744073709551615"), (Integer{false, ~std::uint64_t{0}}));
  EXPECT_EQ(number("0xffffffffffffffff"), (Integer{false, ~std::uint64_t{0}}));
  EXPECT_EQ(number("01777777777777777777777"), (Integer{false, ~std::uint64_t{0}}));
  EXPECT_EQ(number("-9223372036854775808"), (Integer{true, kHalf}));
  EXPECT_EQ(number("-0x8000000000000000"), (Integer{true, kHalf}));
  for (const char* each :
       {"18446744073709551616", "0x10000000000000000", "02000000000000000000000",
        "-9223372036854775809", "-0x8000000000000001", "99999999999999999999999999999999999999"}) {
    EXPECT_EQ(number(each), std::nullopt) << each;
  }
}

TEST(Numbers, AreNothingElse) {
  for (const char* each : {"", "-", "--1", "+1", "0x", "0X", "-0x", "08", "0o7", "1a", "0xg", "1.5",
                           "1e3", " 1", "1 ", "1_000", "0b1", "x", "1u"}) {
    EXPECT_EQ(number(each), std::nullopt) << each;
  }
}

struct Words {
  std::vector<std::string> words;
  std::vector<std::string> annotations;
  std::vector<std::string> defines;
  bool ok;
};

Words words(std::string_view text) {
  Source source("test.x", text);
  Diagnostics diagnostics;
  const Lexed lexed = lex(source, diagnostics);
  Words result;
  for (const Token& each : lexed.tokens) {
    EXPECT_EQ(text.substr(each.at.offset, each.at.size), each.text);
    result.words.emplace_back(each.text);
  }
  EXPECT_EQ(lexed.tokens.back().kind, Token::Kind::kEnd);
  result.words.pop_back();
  for (const Annotation& each : lexed.annotations) result.annotations.emplace_back(each.text);
  for (const Define& each : lexed.defines) result.defines.emplace_back(each.name);
  result.ok = diagnostics.ok();
  return result;
}

using Texts = std::vector<std::string>;

TEST(Lexer, TakesWordsApart) {
  EXPECT_EQ(words("const A=-1;opaque b<0x10>;/**/x_1").words,
            (Texts{"const", "A", "=", "-1", ";", "opaque", "b", "<", "0x10", ">", ";", "x_1"}));
  EXPECT_EQ(words("").words, Texts{});
  EXPECT_EQ(words(" \t\r\n\f\v").words, Texts{});
}

TEST(Lexer, PassesOverCommentsAndPercentLines) {
  EXPECT_EQ(words("a /* b\n* / c */ d // e\nf\n%g\nh").words, (Texts{"a", "d", "f", "h"}));
  EXPECT_EQ(words("a /*/ b */ c").words, (Texts{"a", "c"}));
  EXPECT_FALSE(words("a /*/ b").ok);
  EXPECT_FALSE(words("a % b").ok) << "'%' begins a line";
}

TEST(Lexer, KnowsAnnotationsFromProse) {
  EXPECT_EQ(words("/* ddp */ // non-idempotent \n/*unbounded <= 5, ddp*/").annotations,
            (Texts{"ddp", "non-idempotent", "unbounded <= 5, ddp"}));
  EXPECT_EQ(words("/* ddp is not for this */ // ddp.\n/* unbounded data */ /* DDP */ /* */ //")
                .annotations,
            Texts{});
  EXPECT_EQ(words("#if 0\n/* ddp */\n// ddp\n#endif\n").annotations, Texts{});
}

TEST(Lexer, FollowsConditions) {
  const auto read = [](std::string_view condition) {
    return words(std::string(condition) + "\nyes\n#else\nno\n#endif\n").words == Texts{"yes"};
  };
  EXPECT_TRUE(read("#if 1"));
  EXPECT_FALSE(read("#if 0"));
  EXPECT_TRUE(read("#if !0"));
  EXPECT_TRUE(read("#if ! ! 1"));
  EXPECT_TRUE(read("#ifdef RPC_HDR // a comment"));
  EXPECT_TRUE(read("#ifndef OTHER /* a comment */"));
  EXPECT_FALSE(read("#if OTHER"));
  EXPECT_TRUE(read("#if !defined(OTHER)"));
  EXPECT_TRUE(read("#if defined RPC_XDR"));
  EXPECT_TRUE(read("#define A 0\n#ifdef A"));
  EXPECT_FALSE(read("#define A 0\n#if A"));
  EXPECT_TRUE(read("#define A 0\n#if !A"));
  EXPECT_FALSE(read("#define A 1\n#undef A\n#if defined(A)"));
  EXPECT_TRUE(read("#if 0\nno\n#elif 1"));
  EXPECT_EQ(words("#if 1\na\n#elif 1\nb\n#else\nc\n#endif\nd").words, (Texts{"a", "d"}));
  EXPECT_EQ(words("#if 0\n#if 1\na\n#else\nb\n#endif\n#else\nc\n#endif\nd").words,
            (Texts{"c", "d"}));
}

TEST(Lexer, DoesNotAskWhatIsPassedOver) {
  EXPECT_TRUE(words("#if 0\n#if A ? 3\n#elif B +\n#endif\n#endif\n").ok);
  EXPECT_TRUE(words("#if 1\n#elif A ? 3\n#endif\n").ok);
  EXPECT_TRUE(words("#if 0\n#include <a.x>\n#error\n\"'\x01\n#define A B\n#endif\n").ok);
  EXPECT_FALSE(words("#if 0\n#elif A ? 3\n#endif\n").ok);
}

TEST(Lexer, KnowsConstantsOfThePreprocessor) {
  EXPECT_EQ(words("#define A 5\n# define B 0x10 // sixteen\n#define C /* none */\n").defines,
            (Texts{"A", "B"}));
  EXPECT_EQ(words("#define A 5\n#undef A\n#define B 5\n").defines, (Texts{"B"}));
  EXPECT_TRUE(words("# 1 \"a.x\"\n#pragma pack(1)\n#line 5\n#ident \"a\"\n").ok);
}

TEST(Names, GetAnUnderscoreIfCPlusPlusHasThem) {
  EXPECT_EQ(cpp_name("name"), "name");
  for (const char* each :
       {"class", "new", "operator", "private", "template", "this", "and", "xor", "co_await",
        "requires", "std", "rpcrdma", "NULL", "errno", "encode", "fields"}) {
    EXPECT_EQ(cpp_name(each), std::string(each) + "_");
  }
  EXPECT_EQ(cpp_name("Class"), "Class");
  EXPECT_EQ(cpp_name("class_"), "class_");
}

TEST(Names, TypesHaveOthersThanParametersBefore) {
  EXPECT_EQ(type_name("name"), "name");
  EXPECT_EQ(type_name("class"), "class_");
  EXPECT_EQ(type_name("reader"), "reader_");
  EXPECT_EQ(cpp_name("reader"), "reader");
}

TEST(Names, MembersHaveOthersThanTheirType) {
  EXPECT_EQ(member_name("a", "b"), "a");
  EXPECT_EQ(member_name("a", "a"), "a_");
  EXPECT_EQ(member_name("class", "class_"), "class__");
}

TEST(Names, ProceduresHaveOthersThanTheirClasses) {
  EXPECT_EQ(method_name("name"), "name");
  EXPECT_EQ(method_name("class"), "class_");
  for (const char* each : {"call", "traits", "all_traits", "check_credential", "kProgram",
                           "kVersion", "rpcrdma_client_", "rpcrdma_dispatch"}) {
    EXPECT_EQ(method_name(each), std::string(each) + "_");
  }
  for (const char* each : {"dispatch", "answer", "context", "reader", "client_", "arg1"}) {
    EXPECT_EQ(method_name(each), each);
  }
}

TEST(Names, NamespacesConsistOfNames) {
  for (const char* each : {"a", "a::b", "_a1::B_2::c"}) EXPECT_TRUE(is_namespace(each)) << each;
  for (const char* each : {"", "::a", "a::", "a:b", "a:::b", "a::::b", "1a", "a::1", "a-b", "a b",
                           "class", "a::class", "std", "a::std"}) {
    EXPECT_FALSE(is_namespace(each)) << each;
  }
  EXPECT_EQ(namespace_of("blob"), "blob");
  EXPECT_EQ(namespace_of("my-file.v2"), "my_file_v2");
  EXPECT_EQ(namespace_of("3d"), "_3d");
  EXPECT_EQ(namespace_of(""), "_");
  EXPECT_EQ(namespace_of("class"), "class_");
}

TEST(Names, AreTakenInAnyPlaceIfCPlusPlusHasThem) {
  const Compiled made = compile(
      "const new = 1;\nenum class { delete = 2, this = 3 };\n"
      "struct private { int public; private *friend; };\n"
      "union template switch (class typename) { case delete: int using; default: void; };\n"
      "typedef private *operator;\ntypedef class goto<new>;\n"
      "program namespace { version try { void catch(class) = 0; } = 1; } = 2;\n",
      {.name = "signed.x", .namespace_name = {}, .random = true});
  EXPECT_TRUE(made.ok) << made.messages;
  EXPECT_NE(made.header.find("namespace signed_ "), std::string::npos);
  EXPECT_NE(made.header.find("struct private_"), std::string::npos);
}

// Returns which of the texts the made code lacks.
std::vector<std::string> missing(const std::string& made, const std::vector<std::string>& texts) {
  std::vector<std::string> lacking;
  for (const std::string& each : texts) {
    if (made.find(each) == std::string::npos) lacking.push_back(each);
  }
  return lacking;
}

TEST(Names, QualifyTypesWhereOursCouldHideThem) {
  const Compiled made = compile(
      "enum value { V }; struct client { int a; }; typedef client *answer; struct big { opaque "
      "b[99]; };\n"
      "union box switch (value discriminant) { case V: big item; };\n"
      "program P { version PV { answer ask(client, value) = 1; client tell(string, answer) = 2; } "
      "= 1; } = 2;\n",
      {.name = "a.x", .namespace_name = {}, .random = true});
  ASSERT_TRUE(made.ok) << made.messages;
  EXPECT_EQ(
      missing(
          made.header,
          {"rpcrdma_arm_.get<rpcrdma::Box<::a::big>>(1)", "::a::value discriminant() const",
           "rpcrdma::ResultsAwaiter<::a::answer> ask_async(", "const ::a::client& arg1",
           "void tell(rpcrdma::Answer<::a::client> answer, std::string arg1, ::a::answer arg2)"}),
      std::vector<std::string>());
  EXPECT_EQ(missing(made.source,
                    {"static_cast<::a::value>(", "read_arm<::a::box>(", "::a::answer arg2{};",
                     "rpcrdma_arm_.emplace<rpcrdma::Box<::a::big>>(1)", "return this->tell(",
                     "walk(reader, rpcrdma::codec::Of<::a::client>{});"}),
            std::vector<std::string>());
  EXPECT_EQ(missing(made.random, {"constexpr ::a::value kValues[]", "value = ::a::box();",
                                  "using Type = ::a::client;"}),
            std::vector<std::string>());
}

TEST(Names, ArmsHaveOthersThanThoseThatEveryUnionHas) {
  const Compiled made = compile(
      "union u switch (int arm_of) { case 0: int arm_; case 1: int set_void; case 2: int arm_of; "
      "};\n"
      "union v switch (int set_a) { case 0: int a; case 1: int v; };\n",
      {.name = "a.x", .namespace_name = {}, .random = true});
  ASSERT_TRUE(made.ok) << made.messages;
  EXPECT_EQ(missing(made.header, {"std::int32_t arm_of_() const", "std::int32_t* arm_() noexcept",
                                  "std::int32_t* set_void_() noexcept",
                                  "std::int32_t* arm_of__() noexcept", "std::int32_t set_a() const",
                                  "std::int32_t& set_a_();", "std::int32_t* v_()"}),
            std::vector<std::string>());
}

constexpr std::string_view kOneOfEach =
    "enum color { RED }; struct point { int x; opaque data<>; /* ddp */ };\n"
    "union choice switch (color which) { case RED: point p; }; typedef point points<>;\n";

TEST(Compiler, WritesTextAndComparisonOnlyOnRequest) {
  const Compiled plain = compile(kOneOfEach, {.name = "a.x", .namespace_name = {}});
  ASSERT_TRUE(plain.ok) << plain.messages;
  EXPECT_TRUE(plain.fields.empty());
  EXPECT_TRUE(plain.random.empty());
  for (const char* each : {"to_string", "append_text", "operator=="}) {
    EXPECT_EQ(plain.header.find(each), std::string::npos) << each;
    EXPECT_EQ(plain.source.find(each), std::string::npos) << each;
  }
  EXPECT_NE(plain.source.find("bool is_defined(::a::color value)"), std::string::npos);
  const Compiled more = compile(kOneOfEach, {.name = "a.x", .namespace_name = {}, .fields = true});
  EXPECT_EQ(more.header, plain.header);
  EXPECT_EQ(more.source, plain.source);
  EXPECT_TRUE(more.random.empty());
  for (const char* each : {"fields(color value, ", "const point& value, ", "const choice& value, ",
                           "visit(\"data\", value.data, others.data...)"}) {
    EXPECT_NE(more.fields.find(each), std::string::npos) << each;
  }
}

TEST(Compiler, TakesIntBehindWordsOfItsSize) {
  const Compiled made = compile(
      "struct s { hyper int a; unsigned hyper int b; short int c; unsigned short int d; long int "
      "e;\n"
      "unsigned long int f; };\n",
      {.name = "a.x", .namespace_name = {}});
  ASSERT_TRUE(made.ok) << made.messages;
  EXPECT_EQ(missing(made.header, {"std::int64_t a{}", "std::uint64_t b{}", "std::int16_t c{}",
                                  "std::uint16_t d{}", "std::int32_t e{}", "std::uint32_t f{}"}),
            std::vector<std::string>());
}

TEST(Compiler, CountsEightBytesForAHyperThatIsADiscriminant) {
  const Compiled made = compile(
      "union u switch (unsigned hyper a) { case 18446744073709551615: hyper b; default: void; };\n"
      "program P { version V { u F(void) = 1; } = 1; } = 2;\n",
      {.name = "a.x", .namespace_name = {}});
  ASSERT_TRUE(made.ok) << made.messages;
  EXPECT_EQ(missing(made.header, {".results_size_max = 16U"}), std::vector<std::string>());
  EXPECT_EQ(missing(made.source, {"rpcrdma::SizeCounter& counter) {\n  counter.add(8);",
                                  "switch (static_cast<std::uint64_t>(discriminant)) {",
                                  "case 18446744073709551615U: return 0;"}),
            std::vector<std::string>());
}

TEST(Compiler, LeavesNoParameterUnusedWhereThereAreNoTypes) {
  const Compiled made =
      compile("const A = 1;\n", {.name = "a.x", .namespace_name = {}, .random = true});
  EXPECT_EQ(missing(made.random, {"void visit_types([[maybe_unused]] Visit&& visit)"}),
            std::vector<std::string>());
}

TEST(Compiler, TellsCharsFromNumbersOfEightBits) {
  const Compiled made =
      compile("struct s { char a; int8_t b; };\n", {.name = "a.x", .namespace_name = {}});
  EXPECT_EQ(missing(made.source,
                    {"read_char(reader, \"s.a\")", "read_narrow<std::int8_t>(reader, \"s.b\")"}),
            std::vector<std::string>());
}

TEST(Compiler, WritesTheFieldsThatRandomValuesNeed) {
  const Compiled made = compile(kOneOfEach, {.name = "a.x", .namespace_name = {}, .random = true});
  EXPECT_FALSE(made.fields.empty());
  EXPECT_NE(made.random.find("#include \"a_fields.h\""), std::string::npos);
}

}  // namespace
}  // namespace rpcrdma::gen
