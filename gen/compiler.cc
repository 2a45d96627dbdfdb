#include "gen/compiler.h"

#include "gen/check.h"
#include "gen/emit.h"
#include "gen/indent.h"
#include "gen/names.h"
#include "gen/parser.h"

namespace rpcrdma::gen {

Compiled compile(std::string_view text, const CompileOptions& options) {
  Compiled result;
  result.stem = options.name.substr(options.name.rfind('/') + 1);
  result.stem = result.stem.substr(0, result.stem.rfind('.'));
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // some editors begin UTF-8 so
  const Source source(options.name, text);
  Diagnostics diagnostics;
  File file = parse(source, diagnostics);
  if (diagnostics.ok()) check(file, diagnostics);
  for (const Diagnostic& each : diagnostics.all()) result.messages += source.render(each);
  result.ok = diagnostics.ok();
  if (!result.ok) return result;
  const EmitOptions emit{result.stem, options.namespace_name.empty() ? namespace_of(result.stem)
                                                                     : options.namespace_name};
  result.header = indented(emit_header(file, emit));
  result.source = indented(emit_source(file, emit));
  if (options.fields || options.random) result.fields = indented(emit_fields(file, emit));
  if (options.random) result.random = indented(emit_random(file, emit));
  return result;
}

}  // namespace rpcrdma::gen
