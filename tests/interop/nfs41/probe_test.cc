// back_channel_probe against a server of our own, which may err: what it proves in the lab about
// others, it must not claim without reason.
#include "interop/nfs41/probe.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include "interop/nfs41/client.h"
#include "interop/nfs41/fake_server.h"

namespace rpcrdma::interop {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ProbeSettings settings_for(const FakeServer& server, std::chrono::milliseconds patience) {
  ProbeSettings settings;
  settings.url = server.url();
  settings.paths = {"/one", "folder/two", "three"};
  settings.patience = patience;
  settings.options.provider.name = "siwarp";
  return settings;
}

// The reason, which has to be there.
std::string failure_with(Fault fault,
                         std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  FakeServer server(fault);
  try {
    probe(settings_for(server, patience));
  } catch (const Failed& failure) {
    return failure.what();
  }
  return "all happened";
}

TEST(BackChannelProbe, SeesARecallForEachFile) {
  for (const Fault fault : {Fault::kNone, Fault::kBusyAtFirst}) {
    FakeServer server(fault);
    const ProbeReport report = probe(settings_for(server, std::chrono::seconds(10)));
    EXPECT_EQ(report.callbacks.compounds, 3U);
    EXPECT_EQ(report.callbacks.sequences, 3U);
    EXPECT_EQ(report.callbacks.recalls, 3U);
    EXPECT_EQ(report.opens_for_read, 6U) << "there is no delegation at the first OPEN";
    EXPECT_GE(report.delays, 3U);
    EXPECT_GT(report.recalled_ms, 0);
    EXPECT_GE(report.returned_ms, report.recalled_ms);
    EXPECT_GE(report.opened_ms, report.returned_ms);
    EXPECT_THAT(report.provider, HasSubstr("siwarp"));
  }
}

TEST(BackChannelProbe, NamesTheStepThatFails) {
  EXPECT_EQ(failure_with(Fault::kNoBackChannel),
            "first: CREATE_SESSION: the server does not use the connection as back channel");
  EXPECT_EQ(failure_with(Fault::kNotFound),
            "first: OPEN of folder/two: NFS4ERR_NOENT from OP_LOOKUP");
  EXPECT_EQ(failure_with(Fault::kNoConflict),
            "second: OPEN of /one for writing did not wait for the delegation");
}

TEST(BackChannelProbe, GivesUpInTime) {
  constexpr std::chrono::milliseconds kSoon{1000};
  EXPECT_THAT(failure_with(Fault::kNoDelegation, kSoon),
              AllOf(HasSubstr("first: OPEN of /one: no read delegation within 1000 ms"),
                    HasSubstr("OPEN_DELEGATE_NONE")));
  EXPECT_EQ(failure_with(Fault::kNoRecall, kSoon),
            "second: OPEN of /one for writing: NFS4ERR_DELAY for 1000 ms; the delegation was not "
            "recalled");
}

TEST(BackChannelProbe, RefusesWrongCallbacks) {
  EXPECT_EQ(failure_with(Fault::kRecallOfAnother),
            "first: refused a callback: CB_RECALL names another file (NFS4ERR_BADHANDLE)");
  EXPECT_EQ(failure_with(Fault::kRecallInNoSession),
            "first: refused a callback: CB_RECALL without CB_SEQUENCE before it "
            "(NFS4ERR_OP_NOT_IN_SESSION)");
  EXPECT_EQ(failure_with(Fault::kOldSequence),
            "first: refused a callback: CB_SEQUENCE 0 after 0 (NFS4ERR_SEQ_MISORDERED)");
}

TEST(BackChannelProbe, SaysThatThereIsNoServer) {
  ProbeSettings settings;
  settings.url = "rdma://127.0.0.1:1";
  settings.paths = {"file"};
  settings.options.provider.name = "siwarp";
  EXPECT_THROW(probe(settings), Failed);
}

}  // namespace
}  // namespace rpcrdma::interop
