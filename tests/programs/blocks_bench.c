/* usage: blocks_bench HOST NETTYPE null|length|make SIZE SECONDS: prints how many calls a second there were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blocks.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* As rpcgen's stubs do it: libtirpc allocates the results, and the program frees them. */
static int call(CLIENT *client, const char *procedure, block *data) {
  static struct timeval limit = {25, 0};
  block result;
  u_int length;
  int status;
  memset(&result, 0, sizeof(result));
  if (strcmp(procedure, "null") == 0) {
    return clnt_call(client, NULLPROC, (xdrproc_t)xdr_void, NULL, (xdrproc_t)xdr_void, NULL, limit);
  }
  if (strcmp(procedure, "length") == 0) {
    return clnt_call(client, LENGTH, (xdrproc_t)xdr_block, (caddr_t)data, (xdrproc_t)xdr_u_int,
                     (caddr_t)&length, limit);
  }
  status = clnt_call(client, MAKE, (xdrproc_t)xdr_u_int, (caddr_t)&data->block_len,
                     (xdrproc_t)xdr_block, (caddr_t)&result, limit);
  clnt_freeres(client, (xdrproc_t)xdr_block, (caddr_t)&result);
  return status;
}

int main(int count, char **words) {
  CLIENT *client;
  block data;
  unsigned long calls = 0;
  double start, seconds;
  if (count != 6) return 2;
  client = clnt_create(words[1], BLOCKS, BLOCKS_V1, words[2]);
  if (client == NULL) {
    clnt_pcreateerror(words[1]);
    return 3;
  }
  data.block_len = (u_int)atoi(words[4]);
  data.block_val = calloc(data.block_len + 1, 1);
  start = now();
  do {
    if (call(client, words[3], &data) != RPC_SUCCESS) {
      clnt_perror(client, words[3]);
      return 1;
    }
    ++calls;
    seconds = now() - start;
  } while (seconds < atof(words[5]));
  printf("%.1f\n", (double)calls / seconds);
  free(data.block_val);
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return 0;
}
