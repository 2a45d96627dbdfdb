#!/bin/bash
# Process 1 of the guest, run out of the host's tree: the rest of a system, then the agent.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LANG=C.UTF-8
exec >/dev/console 2>&1 </dev/null
here=$(dirname "$0")
. /lab/network # HOST_ADDRESS, GUEST_ADDRESS

mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ln -sfn /proc/self/fd /dev/fd
ln -sfn /proc/mounts /etc/mtab
hostname lab
printf '127.0.0.1 localhost lab\n%s host\n%s guest\n' "$HOST_ADDRESS" "$GUEST_ADDRESS" >/etc/hosts
ulimit -l unlimited # devices pin memory
ulimit -c 0

for module in virtio_console virtio_net virtio_rng; do modprobe "$module"; done
for _ in $(seq 100); do [[ -e /sys/class/net/eth0 ]] && break; sleep 0.1; done
ip link set lo up
ip link set eth0 up
ip addr add "$GUEST_ADDRESS/24" dev eth0

python3 "$here/agent.py"
dmesg >/lab/dmesg.log
sync
echo o >/proc/sysrq-trigger
sleep 60
