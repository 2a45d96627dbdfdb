#include "gss/krb5/errors.h"

#include <krb5/krb5.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "gss/krb5/handles.h"

namespace rpcrdma::gss::krb5 {
namespace {

std::string text_of(std::uint32_t code, int kind) {
  std::string text;
  OM_uint32 more = 0;
  do {
    Buffer part;
    OM_uint32 minor = 0;
    if (gss_display_status(&minor, code, kind, const_cast<gss_OID>(gss_mech_krb5), &more,
                           part.to_set()) != GSS_S_COMPLETE) {
      break;
    }
    if (!text.empty()) text += ", ";
    text += part.text();
  } while (more != 0);
  return text;
}

struct Advice {
  std::int32_t code;  // the minor status
  std::string_view text;
};
constexpr std::array<Advice, 12> kAdvice{{
    {KRB5_FCC_NOFILE, "there is no ticket: run kinit"},
    {KRB5_CC_NOTFOUND, "there is no ticket: run kinit"},
    {KRB5KRB_AP_ERR_TKT_EXPIRED, "the ticket has run out: run kinit"},
    {KRB5KRB_AP_ERR_SKEW, "the clocks of the two machines differ too much: set them (NTP)"},
    {KRB5KRB_AP_ERR_TKT_NYV, "the clocks of the two machines differ too much: set them (NTP)"},
    {KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN,
     "the realm knows no such service: is the host's name right, and was its principal made?"},
    {KRB5KDC_ERR_C_PRINCIPAL_UNKNOWN, "the realm does not know who calls"},
    {KRB5_KDC_UNREACH, "no KDC of the realm answers: see krb5.conf, and the network"},
    {KRB5_REALM_UNKNOWN, "krb5.conf names no KDC of the realm"},
    {KRB5_KT_NOTFOUND, "the keytab has no such key: see klist -k"},
    {KRB5KRB_AP_ERR_BAD_INTEGRITY,
     "the keytab has another key than the realm: was the key made anew?"},
    {KRB5KRB_AP_ERR_REPEAT, "this token was used before"},
}};

}  // namespace

Status status_of(std::string_view what, std::uint32_t major, std::uint32_t minor) {
  Status status{major, minor, {}};
  if (!GSS_ERROR(major)) return status;
  status.text = std::string(what) + ": " + text_of(major, GSS_C_GSS_CODE);
  if (minor != 0) status.text += ": " + text_of(minor, GSS_C_MECH_CODE);
  const auto advice = std::ranges::find(kAdvice, static_cast<std::int32_t>(minor), &Advice::code);
  if (advice != kAdvice.end()) {
    status.text += "; " + std::string(advice->text);
  } else if (minor == EACCES) {
    status.text += "; who runs this may not read the file";
  }
  return status;
}

}  // namespace rpcrdma::gss::krb5
