#include "interop/nfs41/probe.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "interop/nfs41/client.h"
#include "interop/nfs41/loop.h"
#include "nfs41_fields.h"

namespace rpcrdma::interop {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kBetweenOpens{50};

ClientOptions without_capture(ClientOptions options) {
  options.provider.capture_file.clear();
  return options;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Probe {
 public:
  explicit Probe(const ProbeSettings& settings)
      : patience_(settings.patience),
        first_(loop_, "first", settings.url, settings.options, BackChannel::kOnThisConnection),
        second_(loop_, "second", settings.url, without_capture(settings.options),
                BackChannel::kNone) {}

  ProbeReport run(const std::vector<std::string>& paths) {
    report_.provider = first_.provider_name();
    first_.begin_session();
    second_.begin_session();
    for (const std::string& path : paths) conflict_over(path);
    first_.end_session();
    second_.end_session();
    const Callbacks::Counts& counts = report_.callbacks = first_.callbacks().counts();
    if (counts.recalls != paths.size() || counts.sequences != counts.compounds) {
      throw Failed(
          fmt::format("first: {} CB_COMPOUND with {} CB_SEQUENCE and {} CB_RECALL came "
                      "for {} files",
                      counts.compounds, counts.sequences, counts.recalls, paths.size()));
    }
    return report_;
  }

 private:
  void conflict_over(const std::string& path) {
    Delegation delegation;
    const auto reading = open_with_delegation(path, delegation);
    first_.callbacks().expect_recall(delegation);
    const auto writing = open_for_writing(path, delegation);
    second_.close(writing);
    first_.close(reading);
  }

  NfsClient::Opened open_with_delegation(const std::string& path, Delegation& delegation) {
    const auto start = Clock::now();
    std::string last = "NFS4ERR_DELAY";
    while (Clock::now() < start + patience_) {
      ++report_.opens_for_read;
      auto result = first_.open(
          path, nfs41::OPEN4_SHARE_ACCESS_READ | nfs41::OPEN4_SHARE_ACCESS_WANT_READ_DELEG);
      if (auto* opened = std::get_if<NfsClient::Opened>(&result)) {
        if (const auto* read = opened->delegation.read()) {
          delegation = {read->stateid, opened->handle};
          return std::move(*opened);
        }
        last = to_string(opened->delegation);
      }
      loop_.pause(kBetweenOpens);
    }
    throw Failed(fmt::format("first: OPEN of {}: no read delegation within {} ms, at last {}", path,
                             patience_.count(), last));
  }

  NfsClient::Opened open_for_writing(const std::string& path, const Delegation& delegation) {
    const auto start = Clock::now();
    bool returned = false;
    while (Clock::now() < start + patience_) {
      auto result = second_.open(
          path, nfs41::OPEN4_SHARE_ACCESS_WRITE | nfs41::OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
      if (auto* opened = std::get_if<NfsClient::Opened>(&result)) {
        if (!returned) {
          throw Failed("second: OPEN of " + path + " for writing did not wait for the delegation");
        }
        report_.opened_ms = std::max(report_.opened_ms, milliseconds_since(start));
        return std::move(*opened);
      }
      ++report_.delays;
      if (returned) {
        loop_.pause(kBetweenOpens);
      } else if (wait_for_recall()) {
        report_.recalled_ms = std::max(report_.recalled_ms, milliseconds_since(start));
        first_.return_delegation(delegation);
        report_.returned_ms = std::max(report_.returned_ms, milliseconds_since(start));
        returned = true;
      }
    }
    throw Failed(
        fmt::format("second: OPEN of {} for writing: NFS4ERR_DELAY for {} ms; the "
                    "delegation was {}",
                    path, patience_.count(), returned ? "recalled and returned" : "not recalled"));
  }

  // For a moment: then the OPEN is due again, which also keeps the second client's lease.
  bool wait_for_recall() {
    Callbacks& callbacks = first_.callbacks();
    const bool came = loop_.run_until([&] { return callbacks.recalled(); }, kBetweenOpens);
    if (!callbacks.refusal().empty()) {
      throw Failed("first: refused a callback: " + callbacks.refusal());
    }
    return came;
  }

  milliseconds patience_;
  Loop loop_;
  NfsClient first_, second_;
  ProbeReport report_;
};

}  // namespace

ProbeReport probe(const ProbeSettings& settings) {
  return Probe(settings).run(settings.paths);
}

}  // namespace rpcrdma::interop
