#include "gen/emit_program.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gen/bounds.h"
#include "gen/check.h"
#include "gen/emit_items.h"
#include "gen/emit_locate.h"
#include "gen/names.h"

namespace rpcrdma::gen {
namespace {

using Kind = Definition::Kind;
using Shape = Declaration::Shape;

// Data without a bound in the file: ServerOptions::bulk_size_max is the bound.
constexpr std::uint64_t kOpenDataMax = 0xffffffff;

bool is_by_value(const Declaration& argument) {
  if (resolved_basic(argument) != Basic::kNone && !argument.is_bytes() && !argument.is_text()) {
    return argument.shape == Shape::kPlain;
  }
  const Definition* target = resolved_target(argument);
  return target != nullptr && target->kind == Kind::kEnum;
}

// Returns the type of a parameter of a client's method: it takes whatever can be written without a
// copy.
std::string parameter_type(const Declaration& argument, std::string_view scope) {
  if (argument.is_text()) return "std::string_view";
  if (argument.is_bytes() && argument.shape == Shape::kVariable) return "rpcrdma::Bytes";
  const std::string type = type_of(argument, scope);
  return is_by_value(argument) ? type : fmt::format("const {}&", type);
}

// Returns the type of a parameter of a method whose result is awaited (rpcrdma/generated/stub.h).
std::string async_parameter_type(const Declaration& argument, std::string_view scope) {
  const std::string type = parameter_type(argument, scope);
  return type.starts_with("const ")
             ? fmt::format("rpcrdma::AsyncArgument<{}>", type_of(argument, scope))
             : type;
}

// Returns whether its type has functions encode(), decode() and measure(), so that templates of the
// library handle it.
bool is_ordinary(const Declaration& of) {
  if (of.is_bytes() || of.is_text() || of.is_list || of.shape != Shape::kPlain) return false;
  return basic_of(of.type) == Basic::kNone && function_for("encode", of.type) == "encode";
}

struct Method {
  std::string name;                       // of the procedure in C++
  std::string result;                     // what the client's method gives
  std::string answered;                   // what the service gives: without the reply
  std::string parameters, names, values;  // "int arg1, " · "arg1, " · ", int arg1"
  std::string async_parameters;           // those of P_async
  Bound bound;                            // of the results
  bool has_places;

  std::string places_parameter(std::string_view initial) const {
    return has_places ? fmt::format("rpcrdma::Places places{}, ", initial) : "";
  }
  std::string_view places_name() const { return has_places ? "places, " : ""; }
};

Method method_of(const Procedure& of, std::string_view scope) {
  Method method;
  method.name = method_name(of.name.text);
  method.answered = type_of(of.result, scope);
  method.bound = bound_of(of.result);
  method.has_places = method.bound.has_data;
  method.result =
      method.has_places ? fmt::format("rpcrdma::WithReply<{}>", method.answered) : method.answered;
  for (std::size_t i = 0; i < of.arguments.size(); ++i) {
    const Declaration& each = of.arguments[i];
    method.parameters += fmt::format("{} arg{}, ", parameter_type(each, scope), i + 1);
    method.async_parameters += fmt::format("{} arg{}, ", async_parameter_type(each, scope), i + 1);
    method.names += fmt::format("arg{}, ", i + 1);
    method.values += fmt::format(", {} arg{}", type_of(each, scope), i + 1);
  }
  return method;
}

bool is_open_at_all(const Bound& bound) {
  return bound.is_open || bound.has_open_data;
}
// Rounds a size without a bound up: a size in XDR is a multiple of four.
std::uint64_t plus_padding(std::uint64_t size, const Bound& bound) {
  return size + (is_open_at_all(bound) ? 3 : 0);
}

// The server answers procedure 0 by itself.
bool is_served(const Procedure& of) {
  return of.number.number.magnitude != 0;
}

std::string comment_of(const Procedure& of, const Method& method) {
  std::string text;
  if (method.has_places) text += "  // Places: for the DDP-eligible results.\n";
  if (!of.idempotent) {
    text += "  // Not idempotent: after a lost connection it may have been executed, or not.\n";
  }
  return text;
}

// --- Clients

class Client {
 public:
  Client(Text& out, const Version& version, std::string scope)
      : out_(out), name_(version.cpp_stem + "_Client"), scope_(std::move(scope)) {}

  void define(const Definition& program, const Version& version) {
    out_.add(
        "\n// Calls {} of {}. Each procedure in three ways: P waits for the results, P_start calls "
        "a\n"
        "// callback with them, P_async is for co_await. The client outlives it.\n"
        "class {} {{\n public:\n  explicit {}(rpcrdma::Client& client) noexcept : "
        "rpcrdma_client_(client) "
        "{{}}\n",
        version.name.text, program.name.text, name_, name_);
    for (const Procedure& each : version.procedures) declare(each);
    out_.add("\n private:\n");
    for (const Procedure& each : version.procedures) {
      const Method method = method_of(each, scope_);
      out_.add(
          "  static rpcrdma::Expected<rpcrdma::Call, rpcrdma::Error> rpcrdma_prepare_{0}(\n"
          "      rpcrdma::Client& client, {1}{2}const rpcrdma::CallOptions& options);\n"
          "  static rpcrdma::Expected<{3}, rpcrdma::Error> rpcrdma_take_{0}(rpcrdma::Reply&& "
          "reply);\n",
          method.name, method.parameters, method.places_parameter(""), method.result);
    }
    out_.add("\n  rpcrdma::Client& rpcrdma_client_;\n}};\n");
  }

  void implement(const Definition& program, const Version& version) {
    for (const Procedure& each : version.procedures) {
      const Method method = method_of(each, scope_);
      prepare(program, version, each, method);
      take(each, method);
      out_.add(
          "rpcrdma::Expected<{0}, rpcrdma::Error> {1}::{2}({3}{4}const rpcrdma::CallOptions& "
          "options) {{\n"
          "  return rpcrdma::stub::call(rpcrdma_client_, rpcrdma_prepare_{2}(rpcrdma_client_, "
          "{5}{6}options), rpcrdma_take_{2});\n"
          "}}\n",
          method.result, name_, method.name, method.parameters, method.places_parameter(""),
          method.names, method.places_name());
    }
  }

 private:
  void declare(const Procedure& procedure) {
    const Method method = method_of(procedure, scope_);
    out_.add(
        "\n{6}  [[nodiscard]] rpcrdma::Expected<{0}, rpcrdma::Error> {1}({2}{3}"
        "const rpcrdma::CallOptions& options = {{}});\n"
        "  template <class Callback>\n"
        "  [[nodiscard]] rpcrdma::Expected<void, rpcrdma::Error> {1}_start({2}{4}Callback&& "
        "callback, "
        "const rpcrdma::CallOptions& options = {{}}) {{\n"
        "    return rpcrdma::stub::start(rpcrdma_client_, rpcrdma_prepare_{1}(rpcrdma_client_, "
        "{5}options), rpcrdma_take_{1}, "
        "std::forward<Callback>(callback));\n  }}\n"
        "  rpcrdma::ResultsAwaiter<{0}> {1}_async({7}{3}"
        "const rpcrdma::CallOptions& options = {{}}) {{\n"
        "    return {{rpcrdma_client_, rpcrdma_prepare_{1}(rpcrdma_client_, {5}options), "
        "rpcrdma_take_{1}}};\n  }}\n",
        method.result, method.name, method.parameters, method.places_parameter(" = {}"),
        method.places_parameter(""), method.names + std::string(method.places_name()),
        comment_of(procedure, method), method.async_parameters);
  }

  // The bound on the results, an expression.
  static std::string results_max(const Procedure& procedure, const Bound& bound) {
    std::string open = "rpcrdma::kUnboundedResultsMax";
    if (!procedure.unbounded_terms.empty()) {
      open.clear();
      for (const std::string& term : procedure.unbounded_terms) {
        open += (open.empty() ? "" : " + ");
        // Numbers of the peer's choice, or the caller's, and signed ones.
        open += term.starts_with("arg") ? fmt::format("rpcrdma::codec::as_size({})", term)
                                        : fmt::format("std::uint64_t{{{}}}", term);
      }
    }
    const auto sum = [&](std::uint64_t fixed, bool is_open) {
      return is_open ? fmt::format("std::uint64_t{{{}U}} + {}", fixed, open)
                     : fmt::format("std::uint64_t{{{}U}}", fixed);
    };
    const std::string whole = sum(plus_padding(bound.whole, bound), is_open_at_all(bound));
    if (!bound.has_data) return whole;
    return fmt::format("places.empty() ? {} : {}", whole,
                       sum(plus_padding(bound.reduced, bound), bound.is_open));
  }

  void prepare(const Definition& program, const Version& version, const Procedure& procedure,
               const Method& method) {
    const bool is_short = std::ranges::all_of(procedure.arguments, is_ordinary);
    out_.add(
        "\nrpcrdma::Expected<rpcrdma::Call, rpcrdma::Error> {0}::rpcrdma_prepare_{1}(\n"
        "    rpcrdma::Client& client, {2}{3}const rpcrdma::CallOptions& options) {{\n"
        "  return rpcrdma::stub::prepare_{4}(client, {{{5}U, {6}U, {7}U}}, {8}, {9}, options",
        name_, method.name, method.parameters, method.places_parameter(""),
        is_short ? "with" : "by", program.value.number.magnitude, version.number.number.magnitude,
        procedure.number.number.magnitude, results_max(procedure, method.bound),
        method.has_places ? "places" : "{}");
    if (is_short) {
      for (std::size_t i = 0; i < procedure.arguments.size(); ++i) out_.add(", arg{}", i + 1);
      return out_.add(");\n}}\n");
    }
    out_.add(",\n[&](rpcrdma::SizeCounter& counter) {{\n");
    std::uint64_t fixed = 0;
    for (std::size_t i = 0; i < procedure.arguments.size(); ++i) {
      fixed += measure_item(out_, procedure.arguments[i], fmt::format("arg{}", i + 1));
    }
    measure_fixed(out_, fixed);
    out_.add("}},\n[&](rpcrdma::MessageWriter& writer) {{\n");
    for (std::size_t i = 0; i < procedure.arguments.size(); ++i) {
      const std::string name = fmt::format("arg{}", i + 1);
      encode_item(out_, procedure.arguments[i], name,
                  fmt::format("\"{}.{}\"", procedure.name.text, name));
    }
    out_.add("}});\n}}\n");
  }

  void take(const Procedure& procedure, const Method& method) {
    out_.add(
        "rpcrdma::Expected<{0}, rpcrdma::Error> {1}::rpcrdma_take_{2}(rpcrdma::Reply&& reply) {{\n",
        method.result, name_, method.name);
    if (procedure.result.is_void()) {
      return out_.add("  return rpcrdma::stub::take_nothing(std::move(reply));\n}}\n");
    }
    out_.add("  return rpcrdma::stub::take{}<{}>(std::move(reply)",
             method.has_places ? "_with_reply" : "", method.answered);
    if (!is_ordinary(procedure.result)) {
      out_.add(", [](rpcrdma::MessageReader& reader, {}& value) {{\n", method.answered);
      decode_item(out_, procedure.result, "value", fmt::format("\"{}\"", procedure.name.text),
                  true);
      out_.add("}}");
    }
    out_.add(");\n}}\n");
  }

  Text& out_;
  std::string name_;
  std::string scope_;
};

// --- Bindings

std::vector<const Procedure*> by_number(const Version& version) {
  std::vector<const Procedure*> sorted;
  for (const Procedure& each : version.procedures) sorted.push_back(&each);
  std::ranges::sort(sorted, {},
                    [](const Procedure* each) { return each->number.number.magnitude; });
  return sorted;
}

// The bound on the results, an expression without arguments.
std::string results_bound(const Procedure& of) {
  const Bound bound = bound_of(of.result);
  if (!is_open_at_all(bound)) return fmt::format("{}U", bound.whole);
  const auto is_argument = [](const std::string& term) { return term.starts_with("arg"); };
  if (of.unbounded_terms.empty() || std::ranges::any_of(of.unbounded_terms, is_argument)) {
    return "rpcrdma::ProcedureTraits::kNoBound";
  }
  std::string sum = fmt::format("std::uint64_t{{{}U}}", plus_padding(bound.whole, bound));
  for (const std::string& term : of.unbounded_terms) {
    sum += fmt::format(" + std::uint64_t{{{}}}", term);
  }
  return sum;
}

void emit_traits(Text& out, const Procedure& of) {
  std::uint64_t largest = 0, sum = 0, count = 0;
  for (const Declaration& argument : of.arguments) {
    const Bound bound = bound_of(argument);
    largest = std::max(largest, bound.data_max);
    sum = std::min(sum + bound.data_sum, Bound::kMany);
    count = std::min(count + bound.data_count, kOpenDataMax);
  }
  out.add(
      "      {{.number = {}U, .name = \"{}\", .bulk_argument_size_max = {}U,\n"
      "       .bulk_arguments_max = {}U, .bulk_arguments_size_max = {},\n"
      "       .results_size_max = {}, .is_idempotent = {}, .may_answer_by_read = {}}},\n",
      of.number.number.magnitude, of.name.text, largest == Bound::kMany ? kOpenDataMax : largest,
      count, sum == Bound::kMany ? "rpcrdma::ProcedureTraits::kNoBound" : fmt::format("{}U", sum),
      results_bound(of), of.idempotent, of.results_by_read);
}

void emit_binding(Text& out, const Definition& program, const Version& version) {
  out.add(
      "\n// What the file says about {0} of {1} (RFC 8166 section 6).\n"
      "struct {5}_Binding {{\n"
      "  static constexpr std::uint32_t kProgram = {2}U;\n"
      "  static constexpr std::uint32_t kVersion = {3}U;\n"
      "  static constexpr std::array<rpcrdma::ProcedureTraits, {4}> kProcedures{{{{  // sorted\n",
      version.name.text, program.name.text, program.value.number.magnitude,
      version.number.number.magnitude, version.procedures.size(), version.cpp_stem);
  for (const Procedure* each : by_number(version)) emit_traits(out, *each);
  out.add(
      "  }}}};\n"
      "  // Where the DDP-eligible items are in the arguments, or the results, of a procedure.\n"
      "  static rpcrdma::Expected<rpcrdma::ItemPlaces, rpcrdma::xdr::DecodeError> locate_items(\n"
      "      std::uint32_t procedure, rpcrdma::XdrPart part, rpcrdma::Bytes xdr);\n}};\n");
}

// --- Services

class Service {
 public:
  Service(Text& out, const Version& version, std::string scope)
      : out_(out), name_(version.cpp_stem + "_Service"), scope_(std::move(scope)) {}

  void define(const Definition& program, const Version& version) {
    out_.add(
        "\n// Serves {0} of {1}: override what you serve, the rest is answered with PROC_UNAVAIL.\n"
        "// Each function answers through `answer`, now or later; it runs on the server's thread.\n"
        "class {2} : public rpcrdma::Service {{\n public:\n"
        "  static constexpr std::uint32_t kProgram = {3}U;\n"
        "  static constexpr std::uint32_t kVersion = {4}U;\n\n",
        version.name.text, program.name.text, name_, program.value.number.magnitude,
        version.number.number.magnitude);
    for (const Procedure& each : version.procedures) {
      if (!is_served(each)) continue;
      const Method method = method_of(each, scope_);
      out_.add("  virtual void {}(rpcrdma::Answer<{}> answer{});\n", method.name, method.answered,
               method.values);
    }
    out_.add(
        "\n  std::span<const rpcrdma::ProcedureTraits> all_traits() const noexcept override;\n"
        "  // From the binding. A service that overrides it may set a lower limit.\n"
        "  const rpcrdma::ProcedureTraits* traits(std::uint32_t procedure) const noexcept "
        "override;\n"
        "  void call(rpcrdma::CallContext& context) final;\n\n private:\n"
        "  void rpcrdma_dispatch(rpcrdma::CallContext& context);\n}};\n");
  }

  void implement(const Version& version) {
    for (const Procedure& each : version.procedures) {
      if (!is_served(each)) continue;
      codec(each);
      const Method method = method_of(each, scope_);
      std::string values;
      for (const Declaration& argument : each.arguments) values += ", " + type_of(argument, scope_);
      out_.add(
          "void {}::{}(rpcrdma::Answer<{}> answer{}) {{\n"
          "  answer.fail(rpcrdma::AcceptStatus::kProcUnavail);\n}}\n",
          name_, method.name, method.answered, values);
    }
    out_.add(
        "std::span<const rpcrdma::ProcedureTraits> {}::all_traits() const noexcept {{\n"
        "  return {}_Binding::kProcedures;\n}}\n",
        name_, version.cpp_stem);
    out_.add(
        "const rpcrdma::ProcedureTraits* {}::traits(std::uint32_t procedure) const noexcept {{\n"
        "  return rpcrdma::find_traits({}_Binding::kProcedures, procedure);\n}}\n",
        name_, version.cpp_stem);
    out_.add(
        "// An answer that an exception drops is SYSTEM_ERR.\n"
        "void {0}::call(rpcrdma::CallContext& context) {{\n  try {{\n    "
        "rpcrdma_dispatch(context);\n"
        "  }} catch (...) {{\n  }}\n}}\n"
        "void {0}::rpcrdma_dispatch(rpcrdma::CallContext& context) {{\n"
        "  [[maybe_unused]] rpcrdma::MessageReader& reader = context.arguments();\n"
        "  switch (context.procedure().number) {{\n",
        name_);
    for (const Procedure& each : version.procedures) {
      if (is_served(each)) dispatch(each);
    }
    out_.add("    default:\n      context.fail(rpcrdma::AcceptStatus::kProcUnavail);\n  }}\n}}\n");
  }

 private:
  std::string codec_name(const Procedure& procedure) const {
    if (is_ordinary(procedure.result)) {
      return fmt::format("rpcrdma::kResultsCodec<{}>", type_of(procedure.result, scope_));
    }
    return fmt::format("k{}_{}", name_, procedure.name.text);
  }

  void codec(const Procedure& procedure) {
    out_.add("\n");
    if (procedure.result.is_void() || is_ordinary(procedure.result)) return;
    const std::string type = type_of(procedure.result, scope_);
    out_.add(
        "namespace {{\nconstexpr rpcrdma::ResultsCodec<{0}> {1} = {{\n"
        "    [](const {0}& value, rpcrdma::MessageWriter& writer) {{\n",
        type, codec_name(procedure));
    encode_item(out_, procedure.result, "value", fmt::format("\"{}\"", procedure.name.text));
    out_.add(
        "    }},\n    []([[maybe_unused]] const {}& value, rpcrdma::SizeCounter& counter) {{\n",
        type);
    measure_fixed(out_, measure_item(out_, procedure.result, "value"));
    out_.add("    }}}};\n}}  // namespace\n");
  }

  void dispatch(const Procedure& procedure) {
    const Method method = method_of(procedure, scope_);
    if (std::ranges::all_of(procedure.arguments, is_ordinary) &&
        (procedure.result.is_void() || is_ordinary(procedure.result))) {
      return out_.add(
          "    case {}U:\n      return rpcrdma::codec::serve<&{}::{}>(*this, context);\n",
          procedure.number.number.magnitude, name_, method.name);
    }
    const std::string codec = procedure.result.is_void() ? "" : ", " + codec_name(procedure);
    out_.add("    case {}U: {{\n      rpcrdma::Answer<{}> answer(context{});\n",
             procedure.number.number.magnitude, method.answered, codec);
    std::string values;
    for (std::size_t i = 0; i < procedure.arguments.size(); ++i) {
      const Declaration& each = procedure.arguments[i];
      const std::string name = fmt::format("arg{}", i + 1);
      out_.add("  {} {}{{}};\n", type_of(each, scope_), name);
      decode_item(out_, each, name, fmt::format("\"{}.{}\"", procedure.name.text, name), true);
      values += is_by_value(each) ? ", " + name : fmt::format(", std::move({})", name);
    }
    out_.add(
        "      if (!reader.finish()) return answer.fail(rpcrdma::AcceptStatus::kGarbageArgs);\n"
        "      return this->{}(std::move(answer){});\n    }}\n",
        method.name, values);
  }

  Text& out_;
  std::string name_;
  std::string scope_;
};

template <class Visit>
void for_each_version(const File& file, Visit visit) {
  for (const Definition& each : file.definitions) {
    for (const Version& version : each.versions) visit(each, version);
  }
}

}  // namespace

bool has_programs(const File& file) {
  return std::any_of(file.definitions.begin(), file.definitions.end(),
                     [](const Definition& each) { return each.kind == Kind::kProgram; });
}

void emit_program_classes(Text& out, const File& file, const EmitOptions& options) {
  const std::string scope = scope_of(options);
  for_each_version(file, [&](const Definition& program, const Version& version) {
    emit_binding(out, program, version);
    Client(out, version, scope).define(program, version);
    Service(out, version, scope).define(program, version);
  });
}

void emit_program_functions(Text& out, const File& file, const EmitOptions& options) {
  const std::string scope = scope_of(options);
  if (has_programs(file)) emit_locate_types(out, file, scope);
  for_each_version(file, [&](const Definition& program, const Version& version) {
    Client(out, version, scope).implement(program, version);
    Service(out, version, scope).implement(version);
    emit_locate_items(out, version, scope);
  });
}

}  // namespace rpcrdma::gen
