/* A program of another library than libtirpc. */
int svc_reg(void *transport, unsigned int program, unsigned int version, void *dispatch, void *entry);

int main(void) {
  static char transport[] = "its own";
  return svc_reg(transport, 7, 8, 0, 0) ? 0 : 1;
}
