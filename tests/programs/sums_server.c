/* The procedures of sums.x. */
#include "sums.h"

quad_t *add_1_svc(pair *argument, struct svc_req *request) {
  static quad_t result;
  (void)request;
  result = argument->first + argument->second;
  return &result;
}

quad_t *add_2_svc(pair *argument, struct svc_req *request) { return add_1_svc(argument, request); }

double *mean_2_svc(numbers *argument, struct svc_req *request) {
  static double result;
  u_int i;
  (void)request;
  /* Nothing can be said of no numbers; the client gets no answer. */
  if (argument->numbers_len == 0) return NULL;
  result = 0;
  for (i = 0; i < argument->numbers_len; ++i) result += argument->numbers_val[i];
  result /= argument->numbers_len;
  return &result;
}
