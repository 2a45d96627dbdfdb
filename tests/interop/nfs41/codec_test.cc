// nfs41.x against bytes that other implementations sent; those of knfsd are from one run of
// back_channel_probe.
#include <gtest/gtest.h>

#include "interop/nfs41/callbacks.h"
#include "nfs41.h"
#include "support/hex.h"

namespace rpcrdma::interop {
namespace {

// Decodes, and expects that encoding it again yields the same bytes.
template <class T>
T decoded(const std::string& file) {
  const auto bytes = test::load_hex(std::string(NFS41_VECTORS) + "/" + file);
  auto value = from_bytes<T>(bytes);
  EXPECT_TRUE(value) << file;
  if (!value) return {};
  EXPECT_EQ(test::to_hex(to_bytes(*value)), test::to_hex(bytes)) << file;
  return *value;
}

TEST(Nfs41Codec, DecodesExchangeIdOfTheLinuxClient) {
  const auto args = decoded<nfs41::COMPOUND4args>("linux-exchange-id-args.hex");
  EXPECT_EQ(args.minorversion, 1U);
  ASSERT_EQ(args.argarray.size(), 1U);
  const auto* exchange_id = args.argarray[0].opexchange_id();
  ASSERT_NE(exchange_id, nullptr);
  EXPECT_EQ(exchange_id->eia_clientowner.co_ownerid.size(), 25U);
  EXPECT_EQ(exchange_id->eia_flags, 0x101U);
  ASSERT_EQ(exchange_id->eia_client_impl_id.size(), 1U);
  EXPECT_EQ(exchange_id->eia_client_impl_id[0].nii_domain, "kernel.org");
}

TEST(Nfs41Codec, DecodesTheSessionOfKnfsd) {
  const auto exchanged = decoded<nfs41::COMPOUND4res>("linux-exchange-id-results.hex");
  ASSERT_EQ(exchanged.resarray.size(), 1U);
  const auto* exchange_id = exchanged.resarray[0].opexchange_id();
  ASSERT_NE(exchange_id, nullptr);
  ASSERT_NE(exchange_id->eir_resok4(), nullptr);
  EXPECT_EQ(exchange_id->eir_resok4()->eir_sequenceid, 1U);

  const auto created = decoded<nfs41::COMPOUND4res>("linux-create-session-results.hex");
  ASSERT_EQ(created.resarray.size(), 1U);
  const auto* create_session = created.resarray[0].opcreate_session();
  ASSERT_NE(create_session, nullptr);
  ASSERT_NE(create_session->csr_resok4(), nullptr);
  EXPECT_EQ(create_session->csr_resok4()->csr_flags, nfs41::CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_EQ(create_session->csr_resok4()->csr_back_chan_attrs.ca_maxoperations, 2U);
}

nfs41::sessionid4 session_of_knfsd() {
  const auto created = decoded<nfs41::COMPOUND4res>("linux-create-session-results.hex");
  return created.resarray.at(0).opcreate_session()->csr_resok4()->csr_sessionid;
}

Delegation delegation_of_knfsd() {
  const auto opened = decoded<nfs41::COMPOUND4res>("linux-open-results.hex");
  return {opened.resarray.at(2).opopen()->resok4()->delegation.read()->stateid,
          opened.resarray.at(3).opgetfh()->resok4()->object};
}

TEST(Callbacks, AcceptTheRecallOfKnfsdOnce) {
  Callbacks callbacks;
  callbacks.begin(session_of_knfsd());
  callbacks.expect_recall(delegation_of_knfsd());
  const auto args = decoded<nfs41::CB_COMPOUND4args>("linux-cb-recall-args.hex");
  const auto results = callbacks.results_of(args);
  EXPECT_EQ(results.status, nfs41::nfsstat4::NFS4_OK);
  ASSERT_EQ(results.resarray.size(), 2U);
  ASSERT_NE(results.resarray[0].opcbsequence()->csr_resok4(), nullptr);
  EXPECT_EQ(results.resarray[0].opcbsequence()->csr_resok4()->csr_sequenceid, 1U);
  EXPECT_EQ(results.resarray[1].opcbrecall()->status, nfs41::nfsstat4::NFS4_OK);
  EXPECT_TRUE(callbacks.recalled());
  EXPECT_EQ(callbacks.refusal(), "");

  EXPECT_EQ(callbacks.results_of(args).status, nfs41::nfsstat4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(callbacks.refusal(), "CB_SEQUENCE 1 after 1 (NFS4ERR_SEQ_MISORDERED)");
}

// With the wrong session, slot, order, delegation or minor version.
TEST(Callbacks, RefuseWhatIsNotTheirs) {
  const auto right = decoded<nfs41::CB_COMPOUND4args>("linux-cb-recall-args.hex");
  const auto status_of = [](const nfs41::CB_COMPOUND4args& args) {
    Callbacks callbacks;
    callbacks.begin(session_of_knfsd());
    callbacks.expect_recall(delegation_of_knfsd());
    const auto results = callbacks.results_of(args);
    EXPECT_FALSE(callbacks.recalled());
    EXPECT_NE(callbacks.refusal(), "");
    EXPECT_TRUE(from_bytes<nfs41::CB_COMPOUND4res>(to_bytes(results)));
    return results.status;
  };
  auto args = right;
  args.argarray[0].opcbsequence()->csa_sessionid[0] ^= std::byte{1};
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_BADSESSION);
  args = right;
  args.argarray[0].opcbsequence()->csa_slotid = 1;
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_BADSLOT);
  args = right;
  args.argarray[1] = args.argarray[0];
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_SEQUENCE_POS);
  args = right;
  args.argarray.erase(args.argarray.begin());
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_OP_NOT_IN_SESSION);
  args = right;
  args.argarray[1].opcbrecall()->stateid.seqid = 9;
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_BAD_STATEID);
  args = right;
  args.argarray[1].opcbrecall()->fh.pop_back();
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_BADHANDLE);
  args = right;
  args.minorversion = 0;
  EXPECT_EQ(status_of(args), nfs41::nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
}

}  // namespace
}  // namespace rpcrdma::interop
