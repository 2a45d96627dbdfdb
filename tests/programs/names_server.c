/* The procedures of names.x: a list comes back sorted. */
#include <stdlib.h>
#include <string.h>

#include "names.h"

enum { LIMIT = 1000 };

static int compare(const void *left, const void *right) {
  return strcmp((*(entry *const *)left)->name, (*(entry *const *)right)->name);
}

answer *sort_1_svc(entries *argument, struct svc_req *request) {
  static answer result;
  entry *all[LIMIT];
  entry *each;
  int count = 0, i;
  (void)request;
  result.status = SORTED;
  for (each = *argument; each != NULL; each = each->next) {
    if (count == LIMIT) {
      result.status = TOO_MANY;
      result.answer_u.limit = LIMIT;
      return &result;
    }
    all[count++] = each;
  }
  qsort(all, (size_t)count, sizeof(all[0]), compare);
  for (i = 0; i < count; ++i) all[i]->next = i + 1 < count ? all[i + 1] : NULL;
  /* The caller frees the arguments from their first element on. */
  *argument = count > 0 ? all[0] : NULL;
  result.answer_u.list = *argument;
  return &result;
}
