/* usage: blocks_client HOST NETTYPE [SIZE...]: has blocks of these sizes reversed. */
#include <stdio.h>
#include <stdlib.h>

#include "blocks.h"

static int reverse(CLIENT *client, u_int size) {
  block argument, *result;
  u_int i;
  int is_right = 1;
  argument.block_len = size;
  argument.block_val = malloc(size + 1);
  for (i = 0; i < size; ++i) argument.block_val[i] = (char)(i * 7 + i / 251);
  result = reverse_1(&argument, client);
  if (result == NULL) {
    clnt_perror(client, "reverse");
    free(argument.block_val);
    return 0;
  }
  is_right = result->block_len == size;
  for (i = 0; is_right && i < size; ++i) {
    is_right = result->block_val[i] == argument.block_val[size - 1 - i];
  }
  clnt_freeres(client, (xdrproc_t)xdr_block, (caddr_t)result);
  free(argument.block_val);
  if (!is_right) fprintf(stderr, "a block of %u bytes came back wrong\n", size);
  return is_right;
}

int main(int count, char **words) {
  CLIENT *client;
  int i, is_right = 1;
  if (count < 3) return 2;
  client = clnt_create(words[1], BLOCKS, BLOCKS_V1, words[2]);
  if (client == NULL) {
    clnt_pcreateerror(words[1]);
    return 3;
  }
  for (i = 3; i < count; ++i) is_right = reverse(client, (u_int)atoi(words[i])) && is_right;
  printf("%s\n", client->cl_netid ? client->cl_netid : "-");
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return is_right ? 0 : 1;
}
