// Kerberos on a realm of the test's own, which KRB5_CONFIG names (tests/gss/realm.py makes it).
#include "gss/krb5/mechanism.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gss/krb5/handles.h"

// The sanitizer asks for it: MIT's library (1.20) loses some bytes when an acceptor's keytab is not
// there.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions() {
  return "leak:krb5_build_principal_alloc_va\n";
}

namespace rpcrdma::gss::krb5 {
namespace {

using Message = std::vector<std::byte>;

std::string in_realm(const std::string& file) {
  const char* const folder = std::getenv("RPCRDMA_TEST_REALM");
  return folder != nullptr ? std::string(folder) + "/" + file : std::string();
}

Settings client() {
  Settings settings;
  settings.tickets = "FILE:" + in_realm("alice.ccache");
  return settings;
}
Settings server() {
  Settings settings;
  settings.keytab = in_realm("localhost.keytab");
  settings.service = "nfs@localhost";
  return settings;
}

class Krb5 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (in_realm("").empty()) GTEST_SKIP() << "RPCRDMA_TEST_REALM names no realm";
    auto initiating = make(client())->initiate("nfs@localhost");
    ASSERT_TRUE(initiating) << initiating.error().text;
    ours_ = std::move(*initiating);
    auto accepting = acceptor_->accept();
    ASSERT_TRUE(accepting) << accepting.error().text;
    theirs_ = std::move(*accepting);
    Message token, answer;
    const Status first = ours_->step({}, token);
    ASSERT_EQ(first.major, Status::kContinueNeeded) << first.text;
    const Status accepted = theirs_->step(token, answer);
    ASSERT_EQ(accepted.major, Status::kComplete) << accepted.text;
    const Status last = ours_->step(answer, token);
    ASSERT_EQ(last.major, Status::kComplete) << last.text;
    EXPECT_TRUE(token.empty());
  }

  const std::unique_ptr<Mechanism> acceptor_ = make(server());
  std::unique_ptr<Context> ours_, theirs_;
};

Message pattern(std::size_t size) {
  Message made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = std::byte(i * 7 + 1);
  return made;
}

TEST_F(Krb5, ProvesWhoCalls) {
  EXPECT_EQ(theirs_->principal(), "alice@LAB.TEST");
  EXPECT_EQ(theirs_->local_user(), "alice");
  EXPECT_TRUE(ours_->local_user().empty());
}

TEST_F(Krb5, HasTheLifetimeOfTheTicket) {
  using std::chrono::seconds;
  ASSERT_TRUE(ours_->lifetime());
  EXPECT_GT(*ours_->lifetime(), seconds(0));
  ASSERT_TRUE(theirs_->lifetime());
  EXPECT_GE(*theirs_->lifetime(), *ours_->lifetime());
}

// Checksums over pieces are those of the whole.
TEST_F(Krb5, ChecksumsWhatLiesInPieces) {
  const Message data = pattern(6001);
  const Bytes whole(data);
  const Bytes pieces[] = {whole.first(112), whole.subspan(112, 5886), whole.last(3)};
  Message checksum, again;
  ASSERT_FALSE(ours_->checksum(pieces, checksum).is_error());
  EXPECT_TRUE(theirs_->is_checksum_of({&whole, 1}, checksum));
  ASSERT_FALSE(theirs_->checksum({&whole, 1}, again).is_error());
  EXPECT_TRUE(ours_->is_checksum_of(pieces, again));
  EXPECT_EQ(checksum.size(), again.size());
  for (const std::size_t at : {std::size_t{0}, checksum.size() - 1}) {
    Message other = checksum;
    other[at] ^= std::byte{1};
    EXPECT_FALSE(theirs_->is_checksum_of({&whole, 1}, other));
  }
  Message changed = data;
  changed[5000] ^= std::byte{1};
  const Bytes view(changed);
  EXPECT_FALSE(theirs_->is_checksum_of({&view, 1}, checksum));
  EXPECT_FALSE(ours_->is_checksum_of({&whole, 1}, checksum)) << "its own, sent back";
  EXPECT_FALSE(theirs_->is_checksum_of({&whole, 1}, {}));
}

TEST_F(Krb5, EnciphersInPlace) {
  for (const std::size_t size : {0U, 1U, 4U, 17U, 6001U, 1U << 20U}) {
    const Message data = pattern(size);
    const std::size_t header = ours_->wrap_header_size();
    Message token(header + size + ours_->wrap_trailer_size());
    std::ranges::copy(data, token.begin() + static_cast<std::ptrdiff_t>(header));
    ASSERT_FALSE(ours_->wrap(token).is_error()) << size;
    if (size > 16) {
      EXPECT_EQ(std::search(token.begin(), token.end(), data.begin(), data.end()), token.end())
          << size;
    }
    Message spoilt = token;
    spoilt[token.size() / 2] ^= std::byte{1};
    EXPECT_FALSE(theirs_->unwrap(spoilt)) << size;
    Message shorter(token.begin(), token.end() - 1);
    EXPECT_FALSE(theirs_->unwrap(shorter)) << size;
    const auto found = theirs_->unwrap(token);
    ASSERT_TRUE(found) << size;
    EXPECT_TRUE(std::ranges::equal(*found, data)) << size;
  }
  EXPECT_FALSE(theirs_->unwrap({}));
}

TEST_F(Krb5, TakesNoTokenTwiceNorGarbage) {
  Message token, answer;
  auto again = make(client())->initiate("nfs@localhost");
  ASSERT_TRUE(again);
  ASSERT_FALSE((*again)->step({}, token).is_error());
  ASSERT_FALSE((*acceptor_->accept())->step(token, answer).is_error());
  EXPECT_TRUE((*acceptor_->accept())->step(token, answer).is_error()) << "a replayed token";
  for (std::size_t size = 0; size < token.size(); size += 7) {
    EXPECT_TRUE((*acceptor_->accept())->step(Bytes(token).first(size), answer).is_error()) << size;
  }
}

TEST_F(Krb5, SaysWhatToDo) {
  Settings settings = client();
  settings.tickets = "FILE:" + in_realm("none.ccache");
  const auto refused = make(settings)->initiate("nfs@localhost");
  std::string why = refused ? "" : refused.error().text;
  Message token;
  if (refused) why = (*refused)->step({}, token).text;
  EXPECT_NE(why.find("kinit"), std::string::npos) << why;
  auto unknown = make(client())->initiate("nfs@elsewhere.test");
  ASSERT_TRUE(unknown) << unknown.error().text;
  why = (*unknown)->step({}, token).text;
  EXPECT_NE(why.find("knows no such service"), std::string::npos) << why;
  settings = server();
  settings.keytab = in_realm("none.keytab");
  const auto keyless = make(settings)->accept();
  ASSERT_FALSE(keyless);
  EXPECT_NE(keyless.error().text.find("keytab"), std::string::npos) << keyless.error().text;
}

// --- What is asked of the other side, which is GSS-API itself here -----------------------------

// Asks for a context with these flags.
class Asking {
 public:
  Asking(OM_uint32 flags, gss_OID mechanism) : flags_(flags), mechanism_(mechanism) {
    OM_uint32 minor = 0;
    const std::string tickets = client().tickets, service = "nfs@localhost";
    EXPECT_EQ(gss_krb5_ccache_name(&minor, tickets.c_str(), nullptr), GSS_S_COMPLETE);
    gss_buffer_desc text{service.size(), const_cast<char*>(service.data())};
    EXPECT_EQ(gss_import_name(&minor, &text, GSS_C_NT_HOSTBASED_SERVICE, name_.to_set()),
              GSS_S_COMPLETE);
  }
  Message step(Bytes token) {
    gss_buffer_desc input{token.size(), const_cast<std::byte*>(token.data())};
    Buffer output;
    OM_uint32 minor = 0;
    const OM_uint32 major = gss_init_sec_context(
        &minor, GSS_C_NO_CREDENTIAL, context_.to_set(), name_.get(), mechanism_, flags_, 0,
        GSS_C_NO_CHANNEL_BINDINGS, &input, nullptr, output.to_set(), nullptr, nullptr);
    EXPECT_FALSE(GSS_ERROR(major)) << std::hex << major << " " << minor;
    return {output.bytes().begin(), output.bytes().end()};
  }
  Message wrap(Bytes data, bool is_private) {
    gss_buffer_desc input{data.size(), const_cast<std::byte*>(data.data())};
    Buffer output;
    OM_uint32 minor = 0;
    EXPECT_EQ(gss_wrap(&minor, context_.get(), is_private ? 1 : 0, GSS_C_QOP_DEFAULT, &input,
                       nullptr, output.to_set()),
              GSS_S_COMPLETE);
    return {output.bytes().begin(), output.bytes().end()};
  }

 private:
  const OM_uint32 flags_;
  const gss_OID mechanism_;
  Name name_;
  SecurityContext context_;
};

gss_OID kerberos() {
  return const_cast<gss_OID>(gss_mech_krb5);
}

// Numbers of the mechanism must be off: calls overtake each other (gss.md G-90).
TEST_F(Krb5, AsksForMutualAuthenticationAndNoNumbers) {
  auto asking = make(client())->initiate("nfs@localhost");
  ASSERT_TRUE(asking);
  Message token;
  ASSERT_FALSE((*asking)->step({}, token).is_error());
  gss_buffer_desc input{token.size(), token.data()};
  SecurityContext context;
  Buffer output;
  gss_OID used = GSS_C_NO_OID;
  OM_uint32 minor = 0, flags = 0;
  ASSERT_EQ(gss_accept_sec_context(&minor, context.to_set(), GSS_C_NO_CREDENTIAL, &input,
                                   GSS_C_NO_CHANNEL_BINDINGS, nullptr, &used, output.to_set(),
                                   &flags, nullptr, nullptr),
            GSS_S_COMPLETE);
  EXPECT_TRUE(gss_oid_equal(used, kerberos()));
  constexpr OM_uint32 kWanted = GSS_C_MUTUAL_FLAG | GSS_C_INTEG_FLAG | GSS_C_CONF_FLAG;
  constexpr OM_uint32 kOff =
      GSS_C_REPLAY_FLAG | GSS_C_SEQUENCE_FLAG | GSS_C_DELEG_FLAG | GSS_C_DCE_STYLE;
  EXPECT_EQ(flags & (kWanted | kOff), kWanted);
}

TEST_F(Krb5, TakesNoContextOfOtherFlagsOrAnotherMechanism) {
  Message answer;
  const auto status = [&](OM_uint32 flags, gss_OID mechanism) {
    Asking asking(flags, mechanism);
    return (*acceptor_->accept())->step(asking.step({}), answer);
  };
  EXPECT_EQ(status(GSS_C_MUTUAL_FLAG, kerberos()).major, Status::kComplete);
  EXPECT_NE(status(0, kerberos()).text.find("lacks"), std::string::npos);
  for (const OM_uint32 numbers : {OM_uint32{GSS_C_REPLAY_FLAG}, OM_uint32{GSS_C_SEQUENCE_FLAG}}) {
    const auto refused = status(GSS_C_MUTUAL_FLAG | numbers, kerberos());
    EXPECT_NE(refused.text.find("number messages"), std::string::npos) << refused.text;
  }
  gss_OID_desc spnego{6, const_cast<char*>("\x2b\x06\x01\x05\x05\x02")};
  EXPECT_TRUE(status(GSS_C_MUTUAL_FLAG, &spnego).is_error());
}

// A token that everybody can read is none of privacy (gss.md G-92).
TEST_F(Krb5, TakesNoTokenThatIsNotEnciphered) {
  Asking asking(GSS_C_MUTUAL_FLAG, kerberos());
  auto accepting = acceptor_->accept();
  ASSERT_TRUE(accepting);
  Message answer;
  ASSERT_EQ((*accepting)->step(asking.step({}), answer).major, Status::kComplete);
  (void)asking.step(answer);
  const Message data = pattern(100);
  Message open = asking.wrap(data, false), closed = asking.wrap(data, true);
  EXPECT_FALSE((*accepting)->unwrap(open));
  const auto found = (*accepting)->unwrap(closed);
  ASSERT_TRUE(found);
  EXPECT_TRUE(std::ranges::equal(*found, data));
}

}  // namespace
}  // namespace rpcrdma::gss::krb5
