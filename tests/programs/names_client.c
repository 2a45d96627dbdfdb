/* usage: names_client HOST NETTYPE NAME...: prints the names in their order. */
#include <stdio.h>
#include <stdlib.h>

#include "names.h"

int main(int count, char **words) {
  CLIENT *client;
  entries list = NULL;
  entry *each;
  answer *result;
  int i, code = 0;
  if (count < 3) return 2;
  client = clnt_create(words[1], NAMES, NAMES_V1, words[2]);
  if (client == NULL) {
    clnt_pcreateerror(words[1]);
    return 3;
  }
  for (i = 3; i < count; ++i) {
    each = malloc(sizeof(*each));
    each->name = words[i];
    each->next = list;
    list = each;
  }
  result = sort_1(&list, client);
  if (result == NULL) {
    clnt_perror(client, "sort");
    code = 1;
  } else if (result->status == TOO_MANY) {
    printf("more than %u\n", result->answer_u.limit);
  } else {
    for (each = result->answer_u.list; each != NULL; each = each->next) printf("%s\n", each->name);
  }
  if (result != NULL) clnt_freeres(client, (xdrproc_t)xdr_answer, (caddr_t)result);
  while (list != NULL) {
    each = list->next;
    free(list);
    list = each;
  }
  auth_destroy(client->cl_auth);
  clnt_destroy(client);
  return code;
}
