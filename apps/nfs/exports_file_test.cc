#include "nfs/exports_file.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nfs {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Squash = ExportRules::Squash;

// Knows one machine of two addresses, and one whose addresses are none.
std::vector<std::string> look_up(const std::string& name) {
  if (name == "db.example.org") return {"192.0.2.7", "2001:db8::7"};
  if (name == "trap") return {"*", "0.0.0.0/0", "fe80::1%eth0"};
  return {};
}

Parsed<ExportsFile> read_exports(std::string_view text) {
  return parse_exports(text, look_up);
}

// Reads text that is right.
ExportsFile file_of(std::string_view text) {
  auto made = read_exports(text);
  EXPECT_TRUE(made) << made.error();
  return made ? *made : ExportsFile{};
}

TEST(ParseExports, ReadsLines) {
  const auto made = read_exports(
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
  const auto made = read_exports(
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
       {"/ok *\nrelative *", "/ok *\n/nobody", "/ok *\n/d *(rw", "/ok *\n/d 1.2.3(rw)",
        "/ok *\n/d *(x)", "/ok *\n/d\\04 *", "/ok *\n/ok *"}) {
    const auto made = read_exports(text);
    ASSERT_FALSE(made) << text;
    EXPECT_THAT(made.error(), HasSubstr("line 2")) << text;
  }
}

TEST(ParseExports, TakesOptionsOfACephFs) {
  const ExportsFile file = file_of("ceph:/vol *(rw,id=nfs,name=/v)");
  ASSERT_EQ(file.exports.size(), 1U);
  EXPECT_EQ(file.exports.front().name, "/v");
  EXPECT_THAT(file.exports.front().settings, ElementsAre(Pair("id", "nfs")));
}

// Distributions and handbooks have lines like these.
TEST(ParseExports, TakesFilesOfTheKernelsServer) {
  const ExportsFile file = file_of(
      "/srv/nfs4 192.0.2.0/24(rw,sync,no_subtree_check,fsid=0,no_wdelay,hide,insecure)\n"
      "/srv/homes *(rw,async,subtree_check,crossmnt,wdelay) ::1(ro,nohide,async)\n");
  ASSERT_EQ(file.exports.size(), 2U);
  EXPECT_TRUE(file.exports.front().is_sync);
  EXPECT_FALSE(file.exports.back().is_sync);
  EXPECT_FALSE(file.exports.front().rules_for("192.0.2.1:5000")->is_read_only);
  EXPECT_THAT(
      file.warnings,
      ElementsAre(AllOf(HasSubstr("line 2: 'async' is not used"), HasSubstr("--nfs-async")),
                  AllOf(HasSubstr("line 2: 'subtree_check' is not"), HasSubstr("reachable")),
                  AllOf(HasSubstr("line 2: 'crossmnt' is not"), HasSubstr("line of its own")),
                  HasSubstr("line 2: 'wdelay' is not"), HasSubstr("line 2: 'nohide' is not")))
      << "each once";
}

TEST(ParseExports, HoldsClientsOfSecureToPrivilegedPorts) {
  const Export made = file_of("/d -secure 192.0.2.0/24 *(insecure)").exports.front();
  EXPECT_EQ(made.rules_for("192.0.2.1:1024"), nullptr);
  EXPECT_NE(made.rules_for("192.0.2.1:1023"), nullptr);
  EXPECT_NE(made.rules_for("198.51.100.1:1024"), nullptr);
}

TEST(ParseExports, TakesQuotesAroundNames) {
  const ExportsFile file = file_of(
      "\"/a b\" *\n/\"c  d\"/e\\040f *(rw)\n\"/#1\\042\" *  # \"a comment\n\"/g\\040(h)\"\t*\n"
      "/i *(name=\"/j k\")#more");
  ASSERT_EQ(file.exports.size(), 5U);
  EXPECT_EQ(file.exports[0].directory, "/a b");
  EXPECT_EQ(file.exports[1].directory, "/c  d/e f");
  EXPECT_EQ(file.exports[2].directory, "/#1\"");
  EXPECT_EQ(file.exports[3].directory, "/g (h)");
  EXPECT_EQ(file.exports[4].name, "/j k");
  EXPECT_THAT(file.warnings, ElementsAre());
  EXPECT_THAT(read_exports("/ok *\n\"/a b *\n").error(), HasSubstr("line 2: a second '\"' is"));
}

TEST(ParseExports, GoesOnInTheNextLineBehindABackslash) {
  const ExportsFile file = file_of(
      "/a 192.0.2.1(rw) \\\n   192.0.2.2(async)\\\r\n\t192.0.2.3\n"
      "# a comment \\\n/goes *(on)\n/b *\n/c * \\");
  ASSERT_EQ(file.exports.size(), 3U);
  EXPECT_EQ(file.exports[0].clients.size(), 3U);
  EXPECT_EQ(file.exports[1].directory, "/b");
  EXPECT_EQ(file.exports[2].directory, "/c");
  EXPECT_THAT(file.warnings, ElementsAre(HasSubstr("line 2: 'async'")));
  EXPECT_THAT(read_exports("/a 192.0.2.1 \\\n\\\n  *(bogus)").error(),
              HasSubstr("line 3: 'bogus'"));
}

TEST(ParseExports, TakesDefaultsOfTheClientsThatFollow) {
  const ExportsFile file = file_of(
      "/a -rw,all_squash,anonuid=5 192.0.2.1 192.0.2.2(ro) -no_root_squash 192.0.2.3\n/b *");
  ASSERT_EQ(file.exports.size(), 2U);
  const Export& made = file.exports.front();
  const auto* const first = made.rules_for("192.0.2.1:5");
  const auto* const second = made.rules_for("192.0.2.2:5");
  const auto* const third = made.rules_for("192.0.2.3:5");
  ASSERT_TRUE(first != nullptr && second != nullptr && third != nullptr);
  EXPECT_FALSE(first->is_read_only);
  EXPECT_EQ(first->squash, Squash::kAll);
  EXPECT_TRUE(second->is_read_only);
  EXPECT_EQ(second->anonymous_uid, 5U);
  EXPECT_FALSE(third->is_read_only);
  EXPECT_EQ(third->squash, Squash::kNone);
  EXPECT_TRUE(file.exports.back().rules_for("192.0.2.1:5")->is_read_only) << "of that line alone";
  EXPECT_THAT(read_exports("/a -rw").error(), HasSubstr("nobody may use /a"));
  EXPECT_THAT(read_exports("/a -rw,bogus *").error(), HasSubstr("behind '-', 'bogus'"));
  EXPECT_FALSE(read_exports("/a - *"));
}

TEST(ParseExports, TakesNamesOfMachines) {
  const ExportsFile file = file_of("/a db.example.org(rw) 198.51.100.0/255.255.255.0");
  ASSERT_EQ(file.exports.size(), 1U);
  const Export& made = file.exports.front();
  ASSERT_NE(made.rules_for("[2001:db8::7]:5"), nullptr);
  EXPECT_FALSE(made.rules_for("192.0.2.7:5")->is_read_only);
  EXPECT_TRUE(made.rules_for("198.51.100.9:5")->is_read_only);
  EXPECT_EQ(made.rules_for("192.0.2.8:5"), nullptr);
  EXPECT_EQ(made.clients.front().text, "db.example.org");
  EXPECT_THAT(file.warnings, ElementsAre());
}

TEST(ParseExports, GivesNothingToANameThatDoesNotResolve) {
  for (const char* const name : {"gone.example.org", "trap"}) {
    const ExportsFile file = file_of("\n/a " + std::string(name) + "(rw) 192.0.2.1");
    ASSERT_EQ(file.exports.size(), 1U);
    const Export& made = file.exports.front();
    EXPECT_EQ(made.rules_for("198.51.100.1:5"), nullptr);
    EXPECT_EQ(made.rules_for("/run/a.socket"), nullptr);
    EXPECT_TRUE(made.rules_for("192.0.2.1:5")->is_read_only);
    EXPECT_FALSE(made.clients.front().is_everybody());
    EXPECT_THAT(file.warnings,
                ElementsAre(AllOf(HasSubstr("line 2"), HasSubstr(name), HasSubstr("nobody"))));
  }
}

TEST(ParseExports, SaysWhichClientsAreNotTaken) {
  const auto error_of = [](const std::string& client) {
    const auto made = read_exports("/ok *\n/d " + client + "(rw)");
    return made ? "nothing of " + client : made.error();
  };
  EXPECT_THAT(error_of("@trusted"), AllOf(HasSubstr("line 2: '@trusted'"), HasSubstr("netgroup")));
  EXPECT_THAT(error_of("*.example.org"), AllOf(HasSubstr("'*.example.org'"), HasSubstr("pattern")));
  EXPECT_THAT(error_of("192.0.2.*"), HasSubstr("pattern"));
  EXPECT_THAT(error_of("db[12]"), HasSubstr("pattern"));
  EXPECT_THAT(error_of("[::1]"), HasSubstr("brackets"));
  EXPECT_THAT(error_of("gss/krb5i"), HasSubstr("*(sec=krb5i)"));
  EXPECT_THAT(error_of("fe80::1%eth0"), HasSubstr("a zone"));
  EXPECT_THAT(error_of("*(clinet=::1)"), HasSubstr("line 2"));
  for (const char* const wrong : {"192.0.2", "0x7f.1", "192.0.2.0/33", "192.0.2.256",
                                  "::1::", "a/24", "-x", ".", "1", "=public"}) {
    EXPECT_THAT(error_of(wrong), HasSubstr("line 2")) << wrong;
  }
}

TEST(ParseExports, RefusesOptionsThatItDoesNotKnow) {
  for (const char* const option :
       {"mp", "mountpoint=/m", "refer=/a@b", "replicas=/a@b", "fsid=7", "fsid=root", "no_acl",
        "xprtsec=tls", "client=192.0.2.1", "ro="}) {
    const auto made = read_exports("/ok *\n/d *(" + std::string(option) + ")");
    ASSERT_FALSE(made) << option;
    EXPECT_THAT(made.error(), AllOf(HasSubstr("line 2"), HasSubstr("is no option"))) << option;
  }
  EXPECT_THAT(read_exports("/d *(root_squahs)").error(), HasSubstr("did you mean root_squash?"));
}

// The system ends a name at its first NUL, and would export what stands before it.
TEST(ParseExports, RefusesNamesThatNobodyCanMount) {
  using std::string_view_literals::operator""sv;
  EXPECT_THAT(read_exports("/ok *\n/srv\0/public *"sv).error(),
              AllOf(HasSubstr("line 2"), HasSubstr("zero")));
  EXPECT_THAT(read_exports("/ok *\n/srv *(name=/a\0b)"sv).error(), HasSubstr("zero"));
  EXPECT_THAT(read_exports("/ok *\nceph:/v *(conf=/a\0b)"sv).error(), HasSubstr("zero"));
  const std::string is_long = "/" + std::string(1024, 'x');
  EXPECT_THAT(read_exports("/ok *\n" + is_long + " *").error(),
              AllOf(HasSubstr("line 2"), HasSubstr("1024")));
  EXPECT_THAT(read_exports("/ok *\n/srv *(name=" + is_long + ")").error(), HasSubstr("1024"));
  EXPECT_EQ(file_of(is_long + " *(name=/x)").exports.front().name, "/x");
  std::vector<std::string> warnings;
  EXPECT_FALSE(parse_export("/srv\0/public"sv, warnings));
  EXPECT_FALSE(parse_export(is_long, warnings));
  EXPECT_TRUE(parse_export(is_long + ":name=/x", warnings));
}

}  // namespace
}  // namespace nfs
