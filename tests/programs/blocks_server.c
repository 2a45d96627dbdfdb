/* The procedures of blocks.x, for the main() of rpcgen's. */
#include <stdlib.h>

#include "blocks.h"

block *reverse_1_svc(block *argument, struct svc_req *request) {
  static block result;
  u_int i;
  (void)request;
  free(result.block_val);
  result.block_len = argument->block_len;
  result.block_val = malloc(argument->block_len + 1);
  for (i = 0; i < argument->block_len; ++i) {
    result.block_val[i] = argument->block_val[argument->block_len - 1 - i];
  }
  return &result;
}

u_int *length_1_svc(block *argument, struct svc_req *request) {
  static u_int result;
  (void)request;
  result = argument->block_len;
  return &result;
}

block *make_1_svc(u_int *argument, struct svc_req *request) {
  static char data[BLOCK_MAX];
  static block result;
  (void)request;
  result.block_len = *argument <= BLOCK_MAX ? *argument : 0;
  result.block_val = data;
  return &result;
}
