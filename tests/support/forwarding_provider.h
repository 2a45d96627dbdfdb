// A provider and queue pairs that pass everything on to others: for tests that change, or watch, a
// part of it.
#ifndef RPCRDMA_TESTS_SUPPORT_FORWARDING_PROVIDER_H_
#define RPCRDMA_TESTS_SUPPORT_FORWARDING_PROVIDER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rpcrdma/provider.h"

namespace rpcrdma::test {

class ForwardingQueuePair : public rdma::QueuePair {
 public:
  explicit ForwardingQueuePair(std::unique_ptr<rdma::QueuePair> inner) : inner_(std::move(inner)) {}

  const rdma::Capabilities& capabilities() const noexcept override {
    return inner_->capabilities();
  }
  Expected<work::RegionId, rdma::Error> attach(MutableBytes memory) override {
    return inner_->attach(memory);
  }
  Expected<work::RegionId, rdma::Error> attach_read_only(Bytes memory) override {
    return inner_->attach_read_only(memory);
  }
  void detach(work::RegionId region) override { inner_->detach(region); }
  Bytes peer_private_data() const noexcept override { return inner_->peer_private_data(); }
  std::string_view peer_address() const noexcept override { return inner_->peer_address(); }
  Expected<void, rdma::Error> post(std::span<work::Request> batch) override {
    return inner_->post(batch);
  }
  Expected<void, rdma::Error> post_receives(const rdma::ReceiveBuffers& buffers,
                                            std::span<const std::uint16_t> numbers) override {
    return inner_->post_receives(buffers, numbers);
  }
  void release_receives(std::span<const std::uint16_t> numbers) override {
    inner_->release_receives(numbers);
  }
  std::size_t poll(std::span<rdma::Completion> out) override { return inner_->poll(out); }
  std::optional<rdma::LinkEvent> poll_link() override { return inner_->poll_link(); }
  bool set_ready_listener(rdma::NewsListener& listener) noexcept override {
    return inner_->set_ready_listener(listener);
  }
  rdma::Error cause() const noexcept override { return inner_->cause(); }
  rdma::Error exposure_failure() const noexcept override { return inner_->exposure_failure(); }
  std::optional<rdma::Remote> refused_write() const noexcept override {
    return inner_->refused_write();
  }
  bool refused_unnamed_write() const noexcept override { return inner_->refused_unnamed_write(); }
  void disconnect() noexcept override { inner_->disconnect(); }
  rdma::Counters counters() const noexcept override { return inner_->counters(); }

 private:
  const std::unique_ptr<rdma::QueuePair> inner_;
};

// Over a provider that outlives it.
class ForwardingProvider : public rdma::Provider {
 public:
  explicit ForwardingProvider(rdma::Provider& inner) : inner_(inner) {}

  std::string_view name() const noexcept override { return inner_.name(); }
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> accept(
      std::unique_ptr<rdma::Incoming> request, Bytes private_data) override {
    return wrapped(inner_.accept(std::move(request), private_data));
  }
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> connect(std::string_view address,
                                                                  Bytes private_data) override {
    return wrapped(inner_.connect(address, private_data));
  }
  Expected<std::unique_ptr<rdma::Listener>, rdma::Error> listen(std::string_view address) override {
    return inner_.listen(address);
  }
  std::string remedy(const rdma::Error& error) const override { return inner_.remedy(error); }
  void progress() override { inner_.progress(); }
  int wait_fd() const noexcept override { return inner_.wait_fd(); }
  Instant now() const noexcept override { return inner_.now(); }
  void arm_timer(std::optional<Instant> when) override { inner_.arm_timer(when); }
  void wait() override { inner_.wait(); }
  bool linger() override { return inner_.linger(); }
  bool wait_also_for(int descriptor) override { return inner_.wait_also_for(descriptor); }
  void wake() noexcept override { inner_.wake(); }

 protected:
  // In what queue pairs are given to the user.
  virtual std::unique_ptr<rdma::QueuePair> wrap(std::unique_ptr<rdma::QueuePair> inner) {
    return inner;
  }

 private:
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> wrapped(
      Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> made) {
    if (!made) return made;
    return wrap(std::move(*made));
  }

  rdma::Provider& inner_;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_FORWARDING_PROVIDER_H_
