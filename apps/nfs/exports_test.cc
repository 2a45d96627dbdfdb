#include "nfs/exports.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <array>

namespace nfs {
namespace {

using rpcrdma::Protection;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Squash = ExportRules::Squash;

std::vector<std::byte> sys(std::uint32_t uid, std::uint32_t gid, std::vector<std::uint32_t> gids) {
  rpcrdma::AuthSys value;
  value.uid = uid;
  value.gid = gid;
  value.gid_count = static_cast<std::uint32_t>(gids.size());
  std::ranges::copy(gids, value.gids.begin());
  std::vector<std::byte> body(rpcrdma::kAuthBodySizeMax);
  body.resize(rpcrdma::encode_auth_sys(value, body).value());
  return body;
}

Caller caller_of(const ExportRules& rules, const std::vector<std::byte>& body) {
  return rules.caller({Protection::kSys}, {rpcrdma::AuthFlavor::kSys, body}).value();
}

TEST(ParseExport, TakesADirectoryAlone) {
  const auto made = parse_export("/srv/data/");
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->directory, "/srv/data");
  EXPECT_EQ(made->name, "/srv/data");
  const ExportRules* const rules = made->rules_for("192.0.2.1:1000");
  ASSERT_NE(rules, nullptr);
  EXPECT_FALSE(rules->is_read_only);
  EXPECT_EQ(rules->squash, Squash::kRoot);
}

TEST(ParseExport, TakesOptions) {
  const auto made =
      parse_export("/d:ro,all_squash,anonuid=5,anongid=6,name=/n,client=192.0.2.0/24,client=::1");
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->directory, "/d");
  EXPECT_EQ(made->name, "/n");
  const ExportRules* const rules = made->rules_for("192.0.2.9:1000");
  ASSERT_NE(rules, nullptr);
  EXPECT_TRUE(rules->is_read_only);
  EXPECT_EQ(rules->squash, Squash::kAll);
  EXPECT_EQ(rules->anonymous_uid, 5U);
  EXPECT_EQ(rules->anonymous_gid, 6U);
  EXPECT_NE(made->rules_for("[::1]:1000"), nullptr);
  EXPECT_EQ(made->rules_for("192.0.3.9:1000"), nullptr);
}

TEST(ParseExport, TakesFlavorsOfSecurity) {
  const auto made = parse_export("/d:sec=krb5p:krb5:sys,ro");
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->rules_for("192.0.2.9:1000")->security,
            (std::vector{Protection::kKrb5p, Protection::kKrb5, Protection::kSys}));
  EXPECT_EQ(parse_export("/d")->rules_for("192.0.2.9:1000")->security, std::vector<Protection>{});
  for (const char* const wrong : {"/d:sec=", "/d:sec=krb4", "/d:sec=sys:", "/d:sec"}) {
    EXPECT_FALSE(parse_export(wrong)) << wrong;
  }
  const auto twice = parse_security("krb5:krb5");
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->size(), 1U);
}

// Whose rights a call has that a security mechanism has proved, and one that it has not.
TEST(ExportRules, TakeCallersWhoAreProtectedAsTheyHaveToBe) {
  const rpcrdma::LocalUser alice{"alice", 1000, 100, {100, 27}}, root{"root", 0, 0, {0}};
  ExportRules rules;
  rules.security = {Protection::kKrb5i, Protection::kKrb5p};
  EXPECT_EQ(rules.caller({Protection::kKrb5i, "alice@X", &alice}, {}),
            (Caller{1000, 100, {100, 27}}));
  EXPECT_EQ(rules.caller({Protection::kKrb5p, "alice@X", &alice}, {}),
            (Caller{1000, 100, {100, 27}}));
  EXPECT_FALSE(rules.caller({Protection::kKrb5, "alice@X", &alice}, {}));
  EXPECT_FALSE(rules.caller({Protection::kSys}, {rpcrdma::AuthFlavor::kSys, sys(1, 1, {})}));
  EXPECT_FALSE(rules.caller({Protection::kNone}, {}));
  // RPCSEC_GSS that nobody has checked.
  EXPECT_FALSE(rules.caller({Protection{6}}, {rpcrdma::AuthFlavor::kRpcsecGss, {}}));
  EXPECT_EQ(rules.caller({Protection::kKrb5i, "nfs/host@X", nullptr}, {}),
            (Caller{65534, 65534, {}}));
  EXPECT_EQ(rules.caller({Protection::kKrb5i, "root@X", &root}, {}),
            (Caller{65534, 65534, {65534}}));
  rules.squash = ExportRules::Squash::kAll;
  EXPECT_EQ(rules.caller({Protection::kKrb5i, "alice@X", &alice}, {}), (Caller{65534, 65534, {}}));
}

TEST(ParseExport, LeavesAColonInTheNameOfADirectory) {
  const auto made = parse_export("/srv/a:b/c");
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->directory, "/srv/a:b/c");
}

TEST(ParseExport, SaysWhatIsNoOption) {
  for (const char* const text : {"/d:bogus", "/d:rw,", "/d:anonuid=x", "/d:anonuid=",
                                 "/d:client=host", "/d:client=1.2.3.4/33", "/d:name=n", ":rw"}) {
    EXPECT_FALSE(parse_export(text)) << text;
  }
  EXPECT_THAT(parse_export("/d:bogus").error(), HasSubstr("'bogus' is no option"));
}

TEST(ParseExport, SaysThatZonesAreNotCompared) {
  EXPECT_THAT(parse_export("/d:client=fe80::1%eth0").error(), HasSubstr("a zone"));
  EXPECT_THAT(parse_exports("/d fe80::1%eth0(rw)").error(), HasSubstr("a zone"));
}

TEST(ParseExport, OfACephFsHasOptionsOfItsOwn) {
  const auto made = parse_export("ceph:/vol/a/:conf=/etc/ceph/c.conf,id=nfs,ro,fs=b,gateway=g1");
  ASSERT_TRUE(made) << made.error();
  EXPECT_EQ(made->directory, "ceph:/vol/a");
  EXPECT_EQ(made->name, "/vol/a");
  EXPECT_THAT(made->settings, ElementsAre(Pair("conf", "/etc/ceph/c.conf"), Pair("id", "nfs"),
                                          Pair("fs", "b"), Pair("gateway", "g1")));
  EXPECT_TRUE(made->clients.front().rules.is_read_only);
  EXPECT_EQ(parse_export("ceph:/")->name, "/");
  EXPECT_EQ(parse_export("ceph:/")->directory, "ceph:/");
  EXPECT_EQ(parse_export("./ceph:a:rw")->directory, "./ceph:a") << "of this machine";
  EXPECT_THAT(parse_export("ceph:vol").error(), HasSubstr("as in ceph:/vol"));
  EXPECT_THAT(parse_export("/d:conf=x").error(), HasSubstr("'conf=x' is no option"));
  EXPECT_FALSE(parse_export("ceph:/v:bogus"));

  const auto lines = parse_exports("ceph:/vol *(rw,id=nfs,name=/v)");
  ASSERT_TRUE(lines) << lines.error();
  EXPECT_EQ(lines->exports.front().name, "/v");
  EXPECT_THAT(lines->exports.front().settings, ElementsAre(Pair("id", "nfs")));
}

TEST(ParseExports, ReadsLines) {
  const auto made = parse_exports(
      "# a comment\n\n/srv/data\t192.0.2.0/24(rw,no_root_squash) *(ro)  # another\r\n"
      "/srv/a\\040b *(name=/ab)");
  ASSERT_TRUE(made) << made.error();
  ASSERT_EQ(made->exports.size(), 2U);
  const Export& data = made->exports.front();
  EXPECT_FALSE(data.rules_for("192.0.2.1:5")->is_read_only);
  EXPECT_EQ(data.rules_for("192.0.2.1:5")->squash, Squash::kNone);
  EXPECT_TRUE(data.rules_for("198.51.100.1:5")->is_read_only);
  EXPECT_EQ(made->exports.back().directory, "/srv/a b");
  EXPECT_EQ(made->exports.back().name, "/ab");
  EXPECT_TRUE(made->exports.back().rules_for("[2001:db8::1]:5")->is_read_only) << "as exports(5)";
  EXPECT_TRUE(made->warnings.empty());
}

// As exports(5) has it, and nearly never what was meant.
TEST(ParseExports, WarnsOfABlankBeforeOptions) {
  const auto made = parse_exports(
      "/plain 10.0.0.0/8(rw)\n/srv 10.0.0.0/8 (rw,all_squash)\n/all\t(rw)\n/two * (ro)");
  ASSERT_TRUE(made) << made.error();
  ASSERT_EQ(made->exports.size(), 4U);
  const Export& srv = made->exports[1];
  EXPECT_TRUE(srv.rules_for("10.0.0.1:5")->is_read_only);
  ASSERT_NE(srv.rules_for("192.0.2.1:5"), nullptr);
  EXPECT_FALSE(srv.rules_for("192.0.2.1:5")->is_read_only);
  EXPECT_EQ(srv.rules_for("192.0.2.1:5")->squash, Squash::kAll);
  EXPECT_THAT(made->warnings,
              ElementsAre(AllOf(HasSubstr("line 2"), HasSubstr("everybody"),
                                HasSubstr("did you mean 10.0.0.0/8(rw,all_squash)?")),
                          AllOf(HasSubstr("line 3"), HasSubstr("everybody"),
                                HasSubstr("*(rw) says the same")),
                          AllOf(HasSubstr("line 4"), HasSubstr("did you mean *(ro)?"))));
}

TEST(ParseExports, NamesTheLineThatIsWrong) {
  for (const char* const text :
       {"/ok *\nrelative *", "/ok *\n/nobody", "/ok *\n/d *(rw", "/ok *\n/d host(rw)",
        "/ok *\n/d *(x)", "/ok *\n/d\\04 *", "/ok *\n/ok *"}) {
    const auto made = parse_exports(text);
    ASSERT_FALSE(made) << text;
    EXPECT_THAT(made.error(), HasSubstr("line 2")) << text;
  }
}

TEST(AddressRange, ComparesTheBitsThatCount) {
  const auto contains = [](const char* range, const char* peer) {
    return AddressRange::parse(range)->contains(peer);
  };
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.0.1:1"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.1:1"));
  EXPECT_TRUE(contains("10.1.2.128/25", "10.1.2.200:1"));
  EXPECT_FALSE(contains("10.1.2.128/25", "10.1.2.100:1"));
  EXPECT_TRUE(contains("2001:db8::/32", "[2001:db8:1::5]:1"));
  EXPECT_FALSE(contains("2001:db8::/32", "[2001:db9::5]:1"));
  EXPECT_TRUE(contains("10.1.2.3", "[::ffff:10.1.2.3]:1")) << "IPv4 at a socket of IPv6";
  EXPECT_TRUE(contains("fe80::1", "[fe80::1%eth0]:1"));
  EXPECT_TRUE(contains("*", "/run/a.socket"));
  EXPECT_FALSE(contains("0.0.0.0/0", "/run/a.socket"));
}

TEST(ExportRules, SquashesRoot) {
  const ExportRules rules;
  EXPECT_EQ(caller_of(rules, sys(0, 0, {0, 10})), (Caller{65534, 65534, {65534, 10}}));
  EXPECT_EQ(caller_of(rules, sys(5, 6, {7})), (Caller{5, 6, {7}}));
  EXPECT_EQ(rules.caller({}, {}), (Caller{65534, 65534, {}})) << "AUTH_NONE";
}

TEST(ExportRules, SquashesEverybodyOrNobody) {
  ExportRules rules;
  rules.squash = Squash::kAll;
  EXPECT_EQ(caller_of(rules, sys(5, 6, {7})), (Caller{65534, 65534, {}}));
  rules.squash = Squash::kNone;
  EXPECT_EQ(caller_of(rules, sys(0, 0, {0})), (Caller{0, 0, {0}}));
}

TEST(ExportRules, KnowNoOtherCredential) {
  const ExportRules rules;
  EXPECT_FALSE(rules.caller({Protection{2}}, {rpcrdma::AuthFlavor::kShort, {}}));
  const std::array<std::byte, 4> garbage{};
  EXPECT_FALSE(rules.caller({Protection::kSys}, {rpcrdma::AuthFlavor::kSys, garbage}));
}

TEST(ExportRules, WantAPrivilegedPortWhereTheyAreSecure) {
  const auto made = parse_export("/d:secure");
  EXPECT_NE(made->rules_for("192.0.2.1:1023"), nullptr);
  EXPECT_EQ(made->rules_for("192.0.2.1:1024"), nullptr);
  EXPECT_EQ(made->rules_for("/run/a.socket"), nullptr);
}

}  // namespace
}  // namespace nfs
