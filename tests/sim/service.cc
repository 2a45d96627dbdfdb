#include "sim/service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/memory.h"

namespace rpcrdma::simulation {

ForeignMemory::ForeignMemory() : bytes_(kForeignSize) {
  fill_pattern(bytes_, kForeignId);
}

Bytes ForeignMemory::run(std::uint64_t call, std::uint32_t size) const {
  return Bytes(bytes_).subspan(call % 64, size);
}

bool ForeignMemory::is_whole() const {
  return !find_difference(bytes_, kForeignId);
}

const ProcedureTraits* ScriptedService::traits(std::uint32_t procedure) const noexcept {
  static constexpr auto make_table = [](bool repeatable) {
    std::array<ProcedureTraits, kProcedures> table{};
    for (std::uint32_t i = 0; i < kProcedures; ++i) {
      table[i].number = i;
      table[i].may_answer_by_read = true;
      table[i].is_idempotent = repeatable;
      table[i].bulk_arguments_max = kBulkItemsMax;
      table[i].bulk_argument_size_max = i == kWork ? kBulkMax : i == kWorkSmall ? kSmallBulkMax : 0;
    }
    return table;
  };
  static constexpr auto kTable = make_table(true), kOnceTable = make_table(false);
  return find_traits(is_idempotent ? kTable : kOnceTable, procedure);
}

void ScriptedService::call(CallContext& context) {
  // The call that comes in may be what somebody else waits for.
  if (!held_.empty() && random_.one_in(4)) answer(random_.below(held_.size()));
  Task task;
  task.context = &context;
  if (!decode(task)) {
    verdict_.broken(6, "the service got arguments that do not decode");
    return context.fail(AcceptStatus::kGarbageArgs);
  }
  check_arguments(task, "when it came");
  if (on_call) on_call(context, task.id);
  if (task.answer == Answer::kGarbage) return context.fail(AcceptStatus::kGarbageArgs);
  if (task.answer == Answer::kSystemErr || !take_memory(task)) {
    return context.fail(AcceptStatus::kSystemErr);
  }
  // One that the service fails counts as not executed, and may come again.
  if (task.answer != Answer::kHoldAndFail && !executed_.insert(task.id).second) {
    verdict_.broken(10, fmt::format("call {} is executed again", task.id));
  }
  if (task.answer == Answer::kAtOnce) return finish(task);
  held_.push_back(std::move(task));
}

bool ScriptedService::decode(Task& task) {
  MessageReader& arguments = task.context->arguments();
  xdr::Reader& xdr = arguments.xdr();
  task.id = xdr.u64("id");
  task.answer = static_cast<Answer>(xdr.u32("answer"));
  task.foreign = xdr.boolean("foreign");
  task.plain_result = xdr.u32("plain result");
  for (std::uint32_t left = std::min(xdr.u32("results"), 8U); left > 0; --left) {
    task.results.push_back(xdr.u32("result"));
  }
  task.plain = xdr.opaque(kBulkMax, "plain argument");
  const std::uint32_t count = std::min(xdr.u32("arguments"), 16U);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (xdr.u32("index") != i) return false;
    task.arguments.push_back(arguments.bulk(kBulkMax, "argument"));
  }
  return arguments.finish();
}

void ScriptedService::check_arguments(const Task& task, const char* when) {
  const auto check = [&](Bytes bytes, std::uint64_t pattern, std::string_view what) {
    const auto at = find_difference(bytes, pattern);
    if (!at) return;
    verdict_.broken(6, fmt::format("call {}: its {} of {} bytes is wrong {} from byte {} on",
                                   task.id, what, bytes.size(), when, *at));
  };
  check(task.plain, plain_pattern(task.id, false), "plain argument");
  for (std::size_t i = 0; i < task.arguments.size(); ++i) {
    check(task.arguments[i], argument_pattern(task.id, i), "bulk argument");
  }
}

bool ScriptedService::take_memory(Task& task) {
  const std::size_t plain = xdr::padded_memory(task.plain_result) + 100;
  if (plain > 2048 && !task.context->reserve_results(static_cast<std::uint32_t>(plain))) {
    return false;
  }
  if (task.foreign) return true;
  for (const std::uint32_t size : task.results) {
    task.memory.push_back(size == 0 ? MutableBytes{} : task.context->result_memory(size));
    if (task.memory.back().size() != size) return false;
  }
  return true;
}

void ScriptedService::finish(Task& task) {
  MessageWriter& results = task.context->results();
  results.xdr().u64(task.id);
  std::vector<std::byte> plain(task.plain_result);
  fill_pattern(plain, plain_pattern(task.id, true));
  results.xdr().opaque(plain);
  for (std::size_t i = 0; i < task.results.size(); ++i) {
    results.xdr().u32(static_cast<std::uint32_t>(i));
    if (task.foreign) {
      results.bulk(foreign_.run(task.id, task.results[i]));
      continue;
    }
    fill_pattern(task.memory[i], result_pattern(task.id, i));
    if (spoils_results && !task.memory[i].empty()) task.memory[i].back() ^= std::byte{1};
    results.bulk(task.memory[i]);
  }
  task.context->succeed();
}

bool ScriptedService::holds(std::uint64_t call) const noexcept {
  return std::ranges::any_of(held_, [call](const Task& task) { return task.id == call; });
}

void ScriptedService::answer(std::size_t index) {
  Task task = std::move(held_.at(index));
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  check_arguments(task, "when it was answered");
  if (task.answer == Answer::kHoldAndFail) return task.context->fail(AcceptStatus::kSystemErr);
  finish(task);
}

}  // namespace rpcrdma::simulation
