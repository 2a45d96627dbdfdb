# What root_image.sh and kernel.sh share. They run in a folder of their own, in namespaces of their own (lab.py),
# so that a build that is killed leaves no mount, process or file behind but that folder.

say() { printf 'guest: %s\n' "$*" >&2; }
die() { printf 'guest: error: %s\n' "$*" >&2; exit 1; }

suite=bookworm # as the host: the guest runs the host's binaries, which want the same glibc

# Debian's sources as this machine has them, so that no address stands here.
debian_sources() {
  apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    grep -E " $suite(-updates|-security)? main$" | sort -u
}

# Lists and downloads of our own: the machine's apt state is neither trusted to be fresh nor changed.
use_own_apt() {
  mkdir -p apt/lists/partial apt/cache/archives/partial
  debian_sources >apt/sources.list
  [[ -s apt/sources.list ]] || die "apt has no source for Debian $suite main"
  : >apt/apt.conf
  local setting
  for setting in "Dir::State::Lists \"$PWD/apt/lists\"" "Dir::Cache \"$PWD/apt/cache\"" \
    "Dir::Etc::SourceList \"$PWD/apt/sources.list\"" 'Dir::Etc::SourceParts "-"' 'APT::Sandbox::User "root"'; do
    printf '%s;\n' "$setting" >>apt/apt.conf
  done
  export APT_CONFIG=$PWD/apt/apt.conf
  apt-get -qq update || die "apt-get update failed"
}

# Downloads packages into this folder; nothing is installed.
fetch() { apt-get -q download "$@" >&2; }
