// What the services that rpcrdma-gen makes answer with (docs/idl.md).
//
//   void GREET(rpcrdma::Answer<std::string> answer, std::string name) override {
//     answer.succeed("hello " + name);
//   }
#ifndef RPCRDMA_GENERATED_ANSWER_H_
#define RPCRDMA_GENERATED_ANSWER_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <thread>
#include <type_traits>
#include <utility>

#include "rpcrdma/generated/codec.h"
#include "rpcrdma/service.h"

namespace rpcrdma {

// How results of one procedure are written; the generated code has one for each.
template <class R>
struct ResultsCodec {
  void (*encode)(const R& results, MessageWriter& writer);
  void (*measure)(const R& results, SizeCounter& counter);
};

// Owes one Call its answer, now or later: move it to where the answer is made. Dropped without one,
// it answers SYSTEM_ERR. Arguments with views are good until then.
class AnswerBase {
 public:
  AnswerBase(AnswerBase&& other) noexcept
      : context_(std::exchange(other.context_, nullptr)),
        thread_(other.thread_),
        reserved_(other.reserved_) {}
  AnswerBase& operator=(AnswerBase&&) = delete;

  // kGarbageArgs, kSystemErr, kProcUnavail. From any thread, as succeed(); see CallContext.
  void fail(AcceptStatus status) noexcept { take()->fail(status); }

  // The caller, and its address.
  const CallContext& context() const noexcept { return *context_; }

  // The rest is for the server's thread only.
  // Memory for a DDP-eligible result, kept until the reply is out; empty: there is none.
  MutableBytes result_memory(std::uint32_t size) noexcept { return context_->result_memory(size); }
  // A copy of the data in such memory, for results that the service does not keep otherwise; with
  // less bytes than asked for: there is no memory, answer kSystemErr.
  Bytes keep(Bytes data) noexcept {
    if (data.empty() || data.size() > std::numeric_limits<std::uint32_t>::max()) return {};
    const MutableBytes memory = result_memory(static_cast<std::uint32_t>(data.size()));
    if (memory.size() < data.size()) return {};
    std::copy(data.begin(), data.end(), memory.begin());
    return memory.first(data.size());
  }
  // Lets a tcp:// connection go on as RDMA behind this answer; see CallContext::step_up().
  StepUp step_up() { return context_->step_up(); }
  // Room for results of more than 2 KiB (without bulk items) that another thread will give; on the
  // server's own thread succeed() sees to it. False: no memory.
  bool reserve(std::uint32_t size_max) noexcept {
    if (!context_->reserve_results(size_max)) return false;
    reserved_ = size_max;
    return true;
  }

 protected:
  explicit AnswerBase(CallContext& context) noexcept
      : context_(&context), thread_(std::this_thread::get_id()) {}
  ~AnswerBase() {
    if (context_ != nullptr) context_->fail(AcceptStatus::kSystemErr);
  }

  CallContext* take() noexcept { return std::exchange(context_, nullptr); }
  // Room for results that are measured; fails the call when there is none.
  bool has_room(const SizeCounter& counter) noexcept {
    constexpr std::uint32_t kReservedAlways = 2048;  // see CallContext::results()
    const std::uint64_t size = counter.in_place();
    if (size <= std::max(reserved_, kReservedAlways)) return true;
    if (size <= std::numeric_limits<std::uint32_t>::max() &&
        thread_ == std::this_thread::get_id() && reserve(static_cast<std::uint32_t>(size))) {
      return true;
    }
    fail(AcceptStatus::kSystemErr);
    return false;
  }

  CallContext* context_;

 private:
  std::thread::id thread_;
  std::uint32_t reserved_ = 0;  // bytes
};

template <class R>
class Answer : public AnswerBase {
 public:
  Answer(CallContext& context, const ResultsCodec<R>& codec) noexcept
      : AnswerBase(context), codec_(&codec) {}

  // Ends the call. Views in the results (of DDP-eligible items) are of result_memory(), or of
  // memory that outlives the server. Results that break a bound of the .x file, or that were given
  // on another thread without room for them, are answered with SYSTEM_ERR.
  void succeed(const R& results) {
    SizeCounter counter;
    codec_->measure(results, counter);
    if (!has_room(counter)) return;
    codec_->encode(results, context_->results());
    if (!context_->results().ok()) return fail(AcceptStatus::kSystemErr);
    take()->succeed();
  }

 private:
  const ResultsCodec<R>* codec_;
};

// The answer of a procedure without results.
template <>
class Answer<void> : public AnswerBase {
 public:
  explicit Answer(CallContext& context) noexcept : AnswerBase(context) {}

  void succeed() { take()->succeed(); }
};

}  // namespace rpcrdma

#endif  // RPCRDMA_GENERATED_ANSWER_H_
