#!/bin/bash
# The first hour with the packages, in a Debian 12 that has nothing of the project: install, a program of one's own, an export
# as the service runs it, a copy in and out, figures, doctor with planted faults, an upgrade, purge. Prints each command and
# what it said.
#
# usage: first_hour.sh FOLDER     with the packages; root, in a machine that may be changed
set -euo pipefail
packages=$(realpath "$1")
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"' EXIT

say() { printf '\n## %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; eval "$*"; }
expect() { # STATUS COMMAND: a command that is to fail
  local status=0
  printf '$ %s\n' "$2"
  eval "$2" || status=$?
  [[ $status -eq $1 ]] || { echo "first_hour: exit status $status, not $1" >&2; exit 1; }
}
# All files but those that change by themselves, and those of packages that stay.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/cache -o -path /var/lib/apt \
    -o -path /var/lib/dpkg -o -path /var/log -o -path /root -o -path "$packages" \) -prune -o -print | sort
}

say 'Install'
run "apt-get update -qq"
apt-get install -y -qq --no-install-recommends curl g++ cmake make pkg-config >"$work/apt.log" 2>&1
apt-get install -y -qq --no-install-recommends $(dpkg-deb -f "$packages"/rpcrdma_*.deb Depends |
  sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g; s/librpcrdma0.1//') libibverbs1 librdmacm1 libfmt-dev libisal-dev libisal2 \
  libcephfs2- >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; exit 1; }
files >"$work/before"
run "apt-get install -y -qq --no-install-recommends $packages/{rpcrdma,librpcrdma0.1,rpcrdma-verbs,librpcrdma-dev}_*.deb >/dev/null"
run "rpcrdma info | head -12"

say 'A program of our own, by the README'
dpkg-deb -x "$packages"/rpcrdma-doc_*.deb "$work/doc"
zcat -f "$work"/doc/usr/share/doc/*/README.md* >"$work/README.md"
sed -n '/^mkdir hello && cd hello$/,/^build\/server/p' "$work/README.md" | sed 's/ -DCMAKE_PREFIX_PATH=[^ ]*//' >"$work/hello.sh"
(cd "$work" && run "bash -eu hello.sh | tail -1" | tee hello.txt)
grep -qx 'hello, world' "$work/hello.txt"

say 'The service, as its unit starts it'
run "rpcrdma serve --config /etc/rpcrdma/serve.toml --check"
run "rpcrdma serve --config /etc/rpcrdma/serve.toml --check --unit"
chmod 1777 /var/lib/rpcrdma/export
sed -i 's/^# log-level.*/metrics = "127.0.0.1:9100"/' /etc/rpcrdma/serve.toml
unit=/lib/systemd/system/rpcrdma.service
command=$(sed -n 's/^ExecStart=//p' $unit)
bounds=-all$(sed -n 's/^CapabilityBoundingSet=//p' $unit | tr '\n' ' ' | sed 's/ *CAP_/,+/g' | tr '[:upper:]' '[:lower:]' | tr -d ' ')
mkdir -p /run/rpcrdma
mkfifo "$work/ready"
start() {
  printf '$ %s\n' "setpriv --bounding-set $bounds --no-new-privs $command &"
  STATE_DIRECTORY=/var/lib/rpcrdma RUNTIME_DIRECTORY=/run/rpcrdma \
    setpriv --bounding-set "$bounds" --no-new-privs $command >"$work/ready" 2>>"$work/log" &
  server=$!
  { read -r line; cat >"$work/rest" & } <"$work/ready"
  echo "$line"
  [[ $line == ready* ]]
}
start
url=nfs+rdma://127.0.0.1/export

say 'A copy in and out'
head -c 20000000 /dev/urandom >"$work/file"
run "rpcrdma cp $work/file $url/file"
run "rpcrdma cp $url/file $work/back"
run "cmp $work/file $work/back"
run "rpcrdma ls -l $url"

say 'Figures'
run "curl -sf http://127.0.0.1:9100/ready"
run "curl -sf http://127.0.0.1:9100/metrics | grep -E '^rpcrdma_calls_total.*(READ|WRITE)\"'"
run "rpcrdma top --once --interval 0.2"
run "rpcrdma stat $server | head -12"

say 'Doctor: all is well, and four planted faults'
run "rpcrdma doctor $url --provider siwarp"
expect 23 "rpcrdma doctor nfs+rdma://127.0.0.1:9999/export --provider siwarp"
expect 27 "rpcrdma doctor nfs+rdma://127.0.0.1/elsewhere --provider siwarp"
expect 17 "(ulimit -n 20; rpcrdma doctor $url --provider siwarp)"
sed -i 's,:name=/export",:name=/export\,client=192.0.2.1",' /etc/rpcrdma/serve.toml
run "kill -HUP $server"
until grep -q 'settings again' "$work/log"; do sleep 0.1; done
expect 27 "rpcrdma doctor $url --provider siwarp"

say 'An upgrade: a running server goes on, and settings stay'
mkdir "$work/next"
for name in rpcrdma librpcrdma0.1 rpcrdma-verbs librpcrdma-dev; do
  # The same files under the next version's number.
  dpkg-deb -R "$packages/${name}"_[0-9]*.deb "$work/$name"
  now=$(sed -n 's/^Version: //p' "$work/$name/DEBIAN/control")
  sed -i "s/^Version: .*/Version: $now+next/; s/(= $now)/(= $now+next)/" "$work/$name/DEBIAN/control"
  dpkg-deb -b "$work/$name" "$work/next" >/dev/null
done
run "apt-get install -y -qq --no-install-recommends $work/next/*.deb >/dev/null"
run "dpkg-query -W -f '\${Package} \${Version}\n' rpcrdma librpcrdma0.1 rpcrdma-verbs librpcrdma-dev"
run "grep -c client=192.0.2.1 /etc/rpcrdma/serve.toml"
run "curl -sf http://127.0.0.1:9100/ready"

say 'The end'
run "kill $server; wait $server"
server=
run "tail -3 $work/log"
run "rm /var/lib/rpcrdma/export/*"
run "apt-get purge -y -qq rpcrdma librpcrdma0.1 rpcrdma-verbs librpcrdma-dev >/dev/null"
files >"$work/after"
run "diff $work/before $work/after"
echo 'first_hour: nothing of the packages is left'
