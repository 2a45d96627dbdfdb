/* Stands in for libntirpc: it has a function of libtirpc's names, for structures of its own. */
#include <stdio.h>

void *clnt_ncreate_timed(void);
void *clnt_ncreate_timed(void) { return NULL; }

int svc_reg(void *transport, unsigned int program, unsigned int version, void *dispatch, void *entry);
int svc_reg(void *transport, unsigned int program, unsigned int version, void *dispatch, void *entry) {
  printf("%s %u %u\n", (const char *)transport, program, version);
  return dispatch == NULL && entry == NULL;
}
