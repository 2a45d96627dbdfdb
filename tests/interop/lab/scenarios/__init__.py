"""The scenarios of the lab, in the order in which they run. To add one, write a function with @scenario into the
file that it fits, or into a new file that is imported here."""
from scenarios import link, programs, knfsd, back_channel, nfs, gateways, nfs_client, mounts, krb5, nfs_figures, transfers  # noqa: F401
from scenarios import doctor, idle, invalidation, killed, live, preflight, conformance, figures  # noqa: F401
