/* usage: sums_client HOST NETTYPE NUMBER...: prints the sum of the first two, and the mean of all. */
#include <stdio.h>
#include <stdlib.h>

#include "sums.h"

int main(int count, char **words) {
  CLIENT *client;
  rpcvers_t version = 0;
  pair argument;
  numbers all;
  quad_t *sum;
  double *mean;
  u_int i;
  int code = 0;
  if (count < 5) return 2;
  client = clnt_create_vers(words[1], SUMS, &version, SUMS_V1, SUMS_V2 + 5, words[2]);
  if (client == NULL) {
    clnt_pcreateerror(words[1]);
    return 3;
  }
  argument.first = atoll(words[3]);
  argument.second = atoll(words[4]);
  sum = add_2(&argument, client);
  all.numbers_len = (u_int)count - 3;
  all.numbers_val = malloc(all.numbers_len * sizeof(double));
  for (i = 0; i < all.numbers_len; ++i) all.numbers_val[i] = atof(words[3 + i]);
  if (sum == NULL) {
    clnt_perror(client, "add");
    code = 1;
  } else if ((mean = mean_2(&all, client)) == NULL) {
    clnt_perror(client, "mean");
    code = 1;
  } else {
    printf("version %u: %lld %.3f\n", (unsigned)version, (long long)*sum, *mean);
  }
  free(all.numbers_val);
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return code;
}
