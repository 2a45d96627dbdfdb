#include "gen/compiler.h"

#include <fmt/core.h>

#include <algorithm>

#include "gen/bounds.h"
#include "gen/check.h"
#include "gen/emit.h"
#include "gen/emit_tirpc.h"
#include "gen/indent.h"
#include "gen/names.h"
#include "gen/parser.h"

namespace rpcrdma::gen {

namespace {

// Returns the options as the text of a file.
std::string prelude(const CompileOptions& options) {
  std::string text;
  for (std::string each : options.definitions) {
    const std::size_t equals = each.find('=');
    if (equals != std::string::npos) each[equals] = ' ';
    text += "#define " + each + "\n";
  }
  for (const std::string& each : options.imports) text += "#include \"" + each + "\"\n";
  return text;
}

// A client over RDMA has to provide room for the results before the call.
void warn_of_results(const File& file, Diagnostics& diagnostics) {
  for (const Definition& each : file.definitions) {
    for (const Version& version : each.versions) {
      for (const Procedure& procedure : version.procedures) {
        if (procedure.unbounded_max || !bound_of(procedure.result).is_open) continue;
        diagnostics.warning(
            procedure.name.at,
            fmt::format(
                "the results of '{}' have no bound, so that over RDMA a reply with more than "
                "64 KiB of them fails; say /* unbounded <= SIZE */ behind it, or "
                "CallOptions::results_size_max in each call",
                procedure.name.text));
      }
    }
  }
}

// Procedure 0 is the one by which clients look whether a server is there (RFC 5531 §12.1).
void warn_of_procedure_0(const File& file, Diagnostics& diagnostics) {
  const auto is_void = [](const Declaration& each) { return each.is_void(); };
  for (const Definition& each : file.definitions) {
    for (const Version& version : each.versions) {
      for (const Procedure& procedure : version.procedures) {
        const bool is_null =
            procedure.result.is_void() && std::ranges::all_of(procedure.arguments, is_void);
        if (procedure.number.number.magnitude != 0 || is_null) continue;
        diagnostics.warning(
            procedure.name.at,
            fmt::format(
                "'{}' has number 0, which our servers answer by themselves, without results: "
                "the service has no function for it; give it another number, if it is not "
                "another server's",
                procedure.name.text));
      }
    }
  }
}

}  // namespace

Compiled compile(std::string_view text, const CompileOptions& options) {
  Compiled result;
  std::string stem = options.name.substr(options.name.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  result.stem = file_stem(stem);
  const std::string said = prelude(options);
  Source source;
  if (!said.empty()) source.add("<options>", said);
  source.add(options.name, text);
  const std::size_t given = source.files();
  Diagnostics diagnostics;
  File file = parse(source, diagnostics, options.find_included);
  if (diagnostics.ok()) check(file, diagnostics);
  if (diagnostics.ok() && !options.tirpc_table) {
    warn_of_results(file, diagnostics);
    warn_of_procedure_0(file, diagnostics);
  }
  for (const Diagnostic& each : diagnostics.all()) result.messages += source.render(each);
  for (std::size_t i = given; i < source.files(); ++i) result.included.emplace_back(source.name(i));
  result.ok = diagnostics.ok();
  if (!result.ok) return result;
  if (options.tirpc_table) {
    result.tirpc = emit_tirpc_tables(file, stem + ".x");
    return result;
  }
  if (result.stem != stem) {
    result.messages += fmt::format("{}: note: '{}.h' is a header of C; this becomes '{}.h'\n",
                                   options.name, stem, result.stem);
  }
  const EmitOptions emit{
      result.stem, options.namespace_name.empty() ? namespace_of(stem) : options.namespace_name};
  result.header = indented(emit_header(file, emit));
  result.source = indented(emit_source(file, emit));
  if (options.fields || options.random) result.fields = indented(emit_fields(file, emit));
  if (options.random) result.random = indented(emit_random(file, emit));
  return result;
}

}  // namespace rpcrdma::gen
