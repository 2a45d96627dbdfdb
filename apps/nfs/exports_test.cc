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

// A call has the rights of the user that its mechanism proved. Principals without a user of this
// machine, root and squashed callers become nobody; weaker protections are refused.
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
  for (const char* const text : {"/d:bogus", "/d:rw,", "/d:anonuid=x", "/d:anonuid=", "/d:client=",
                                 "/d:client=1.2.3.4/33", "/d:name=n", ":rw"}) {
    EXPECT_FALSE(parse_export(text)) << text;
  }
  EXPECT_THAT(parse_export("/d:bogus").error(), HasSubstr("'bogus' is no option"));
}

// A rule that was lost would be an export to everybody.
TEST(ParseExport, MakesNoExportForEverybodyWhereARuleWasMeant) {
  for (const char* const text : {"/srv:clinet=192.0.2.1", "/srv:clinet=192.0.2.0/24",
                                 "/srv:rw,cleint=192.0.2.0/24", "/srv:clients=::1"}) {
    const auto made = parse_export(text);
    ASSERT_FALSE(made) << text << " is " << made->directory;
    EXPECT_THAT(made.error(), HasSubstr("did you mean client?")) << text;
  }
  EXPECT_THAT(parse_export("/d:no_root_sqash").error(), HasSubstr("mean no_root_squash?"));
  EXPECT_THAT(parse_export("/d:al_squash,client=::/0").error(), HasSubstr("mean all_squash?"));
  EXPECT_THAT(parse_export("/d:rx").error(), HasSubstr("there are ro, rw")) << "like too many";
  for (const char* const text : {"/srv:", "/srv/a:b:", "ceph:/srv:"}) {
    const auto made = parse_export(text);
    ASSERT_FALSE(made) << text;
    EXPECT_THAT(made.error(), HasSubstr("no option stands behind the colon")) << text;
  }
  EXPECT_EQ(parse_export("/srv::rw")->directory, "/srv:");
}

TEST(ParseExport, TakesNamesOfMachinesThatResolve) {
  std::vector<std::string> warnings;
  const auto look_up = [](const std::string& name) {
    return name == "db.example.org" ? std::vector<std::string>{"192.0.2.7", "2001:db8::7"}
                                    : std::vector<std::string>();
  };
  const auto made = parse_export("/d:client=db.example.org", warnings, look_up);
  ASSERT_TRUE(made) << made.error();
  EXPECT_NE(made->rules_for("192.0.2.7:5"), nullptr);
  EXPECT_NE(made->rules_for("[2001:db8::7]:5"), nullptr);
  EXPECT_EQ(made->rules_for("192.0.2.8:5"), nullptr);
  EXPECT_THAT(parse_export("/d:client=gone", warnings, look_up).error(),
              HasSubstr("'gone' of a client does not resolve"));
  EXPECT_TRUE(warnings.empty());
}

TEST(ParseExport, WarnsOfOptionsThatAreNotUsed) {
  std::vector<std::string> warnings;
  const auto made = parse_export("/d:async,crossmnt,ro,async", warnings);
  ASSERT_TRUE(made) << made.error();
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("'async' is not used"), HasSubstr("'crossmnt' is")));
  EXPECT_FALSE(made->is_sync);
  EXPECT_TRUE(parse_export("/d:sync")->is_sync);
}

TEST(ParseExport, SaysThatZonesAreNotCompared) {
  EXPECT_THAT(parse_export("/d:client=fe80::1%eth0").error(), HasSubstr("a zone"));
}

TEST(ParseExport, TakesTheOptionsOfACephFs) {
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

// The bits of an IPv4 address stand behind 96 of another form, which a short range leaves out.
TEST(AddressRange, HoldsNoIpv4UnlessItIsWrittenAsIpv4) {
  const auto contains = [](const char* range, const char* peer) {
    return AddressRange::parse(range)->contains(peer);
  };
  for (const char* const range : {"::/0", "::/1", "::/80", "::/95", "::ffff:0:0/80"}) {
    EXPECT_FALSE(contains(range, "127.0.0.1:1")) << range;
    EXPECT_FALSE(contains(range, "[::ffff:127.0.0.1]:1")) << range;
    EXPECT_TRUE(contains(range, "[::1]:1")) << range;
  }
  EXPECT_TRUE(contains("::/0", "[2001:db8::1]:1"));
  for (const char* const range :
       {"0.0.0.0/0", "127.0.0.0/8", "::ffff:0:0/96", "::ffff:127.0.0.1", "::ffff:127.0.0.0/104"}) {
    EXPECT_TRUE(contains(range, "127.0.0.1:1")) << range;
    EXPECT_TRUE(contains(range, "[::ffff:127.0.0.1]:1")) << range;
    EXPECT_FALSE(contains(range, "[::1]:1")) << range;
  }
}

TEST(AddressRange, TakesNetmasksOfIpv4) {
  const auto range = AddressRange::parse("192.0.2.0/255.255.254.0");
  ASSERT_TRUE(range);
  EXPECT_TRUE(range->contains("192.0.3.9:1"));
  EXPECT_FALSE(range->contains("192.0.4.9:1"));
  EXPECT_FALSE(AddressRange::parse("192.0.2.1/255.255.255.255")->contains("192.0.2.2:1"));
  for (const char* const text :
       {"192.0.2.0/255.0.255.0", "192.0.2.0/0.0.0.255", "192.0.2.0/255.255.255", "192.0.2.0/",
        "192.0.2.0/+8", "2001:db8::/255.255.0.0", "2001:db8::/ffff::", "/24", ""}) {
    EXPECT_FALSE(AddressRange::parse(text)) << text;
  }
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
