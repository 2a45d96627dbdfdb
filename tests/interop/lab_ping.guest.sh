# In the guest: the kernel's NFS server on siw, until the host is done.
set -e
uname -r
lab_siw eth0
lab_knfsd
lab_post ready
lab_wait done 400
grep -E 'net|rpc' /proc/net/rpc/nfsd
