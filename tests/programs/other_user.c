/* Calls the other library, as nfs-ganesha's own shared object does, which stands between it and the program. */
int svc_reg(void *transport, unsigned int program, unsigned int version, void *dispatch, void *entry);

int use_other_library(void);
int use_other_library(void) {
  static char transport[] = "its own";
  return svc_reg(transport, 7, 8, 0, 0);
}
