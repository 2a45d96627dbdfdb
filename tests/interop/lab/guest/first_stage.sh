#!/bin/busybox sh
# /init of the initrd: the root image below a tmpfs, the tree of the project and the folder of this run from the
# host, then second_stage.sh out of that tree. kernel.sh fills the marker in.
bb=/bin/busybox
$bb mkdir -p /proc /sys /dev
$bb mount -t proc proc /proc
give_up() { echo "first stage: $*"; $bb poweroff -f; $bb sleep 60; }

tree=
for word in $($bb cat /proc/cmdline); do
  case $word in
    lab.probe) echo lab-probe-answers; $bb poweroff -f; $bb sleep 60 ;; # lab.py asks whether KVM works
    lab.tree=*) tree=${word#lab.tree=} ;;
  esac
done
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
for module in @BOOT_MODULES@; do $bb modprobe "$module" || echo "first stage: no module $module"; done
tries=0
until [ -b /dev/vda ] || [ $tries -ge 100 ]; do $bb sleep 0.1; tries=$((tries + 1)); done
$bb mount -t ext4 -o ro /dev/vda /lower || give_up "no root image"
$bb mount -t tmpfs -o size=90%,mode=755 tmpfs /upper
$bb mkdir /upper/data /upper/work
$bb mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /target || give_up "no overlay"
$bb mkdir -p "/target$tree" /target/lab /target/lib/modules
$bb cp -a /lib/modules/. /target/lib/modules/
# The tree does not change while the guest runs: what is read once stays in memory. The folder of the run does.
shares="trans=virtio,version=9p2000.L,msize=262144"
$bb mount -t 9p -o "$shares,cache=loose,ro" tree "/target$tree" || give_up "no tree"
$bb mount -t 9p -o "$shares,cache=none" run /target/lab || give_up "no folder of the run"
for folder in proc sys dev; do $bb mount --move /$folder /target/$folder; done
exec $bb switch_root /target "$tree/tests/interop/lab/guest/second_stage.sh"
